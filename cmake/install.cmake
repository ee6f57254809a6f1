# An installation is one folder that can be moved, with the program, what it loads and worker/ side by side, and a link
# to it in bin/. The program finds its folder through the link.
include(GNUInstallDirs)
set(folder "${CMAKE_INSTALL_LIBDIR}/autotriton")
foreach(target IN ITEMS autotriton autotriton_confine)
  if(TARGET ${target})
    # An old-style run path also holds for what the libraries in lib/ (tools/bundle.sh) need themselves.
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN:$ORIGIN/lib")
    target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)
    install(TARGETS ${target} RUNTIME DESTINATION "${folder}" LIBRARY DESTINATION "${folder}")
  endif()
endforeach()
install(DIRECTORY worker DESTINATION "${folder}" FILES_MATCHING
  PATTERN "*.py" PATTERN "*.toml" PATTERN "requirements.lock"
  PATTERN "*_test.py" EXCLUDE PATTERN "testdata" EXCLUDE PATTERN "__pycache__" EXCLUDE PATTERN ".*" EXCLUDE)
install(FILES README.md LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/autotriton")
install(CODE "
  set(bin \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
  file(MAKE_DIRECTORY \"\${bin}\")
  file(CREATE_LINK \"../${folder}/autotriton\" \"\${bin}/autotriton\" SYMBOLIC)
  message(STATUS \"Link: \${bin}/autotriton\")")
