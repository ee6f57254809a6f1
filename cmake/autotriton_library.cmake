find_package(GTest REQUIRED)
include(GoogleTest)

# autotriton_library(<room> PUBLIC_HEADERS … SOURCES … [TESTS …] [DEPS autotriton::<room> …] [LINKS third-party …])
# Makes the library autotriton::<room> from src/<room>, checks that each public header compiles alone, and builds the
# room's tests into one binary <room>_test. DEPS are other rooms (an arrow of docs/architecture.md); LINKS are third
# party and stay private, so that their headers cannot leak into ours.
function(autotriton_library room)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "PUBLIC_HEADERS;SOURCES;TESTS;DEPS;LINKS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "autotriton_library(${room}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target autotriton_${room})
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(autotriton::${room} ALIAS ${target})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/src" FILES ${arg_PUBLIC_HEADERS})
  set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON AUTOTRITON_DEPS "${arg_DEPS}")
  target_link_libraries(${target} PUBLIC ${arg_DEPS} PRIVATE autotriton_options ${arg_LINKS})
  if(arg_TESTS)
    add_executable(${room}_test ${arg_TESTS})
    target_compile_definitions(${room}_test PRIVATE
      AUTOTRITON_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ROOM_TESTDATA_DIR="${CMAKE_CURRENT_SOURCE_DIR}/testdata")
    target_link_libraries(${room}_test PRIVATE ${target} autotriton_options ${arg_LINKS} GTest::gmock GTest::gtest_main)
    gtest_discover_tests(${room}_test TEST_PREFIX "${room}." PROPERTIES LABELS unit DISCOVERY_TIMEOUT 60)
  endif()
endfunction()
