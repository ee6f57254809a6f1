# The tree-sitter runtime and its Python grammar, built from the C sources that `make setup` unpacked into the cache folder.
# Sets the target tree_sitter_python (static; include <tree_sitter/api.h>; declare `const TSLanguage* tree_sitter_python()`).
if(DEFINED ENV{AUTOTRITON_CACHE})
  set(autotriton_cache "$ENV{AUTOTRITON_CACHE}")
else()
  set(autotriton_cache "$ENV{HOME}/.cache/autotriton")
endif()
set(AUTOTRITON_CACHE "${autotriton_cache}" CACHE PATH "Folder that `make setup` fills")

set(runtime "${AUTOTRITON_CACHE}/sources/tree-sitter-0.23.2/tree_sitter/core/lib")
set(grammar "${AUTOTRITON_CACHE}/sources/tree_sitter_python-0.23.6/src")
foreach(file IN ITEMS "${runtime}/src/lib.c" "${grammar}/parser.c" "${grammar}/scanner.c")
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "${file} is missing: run `make setup` first (or point AUTOTRITON_CACHE at the folder it filled)")
  endif()
endforeach()

# The grammar includes <tree_sitter/parser.h>, which its sdist leaves out; the runtime's own copy is the same file.
set(headers "${CMAKE_BINARY_DIR}/tree_sitter_headers")
file(MAKE_DIRECTORY "${headers}")
file(CREATE_LINK "${runtime}/src" "${headers}/tree_sitter" SYMBOLIC)

add_library(tree_sitter_python STATIC "${runtime}/src/lib.c" "${grammar}/parser.c" "${grammar}/scanner.c")
target_include_directories(tree_sitter_python SYSTEM PUBLIC "${runtime}/include" PRIVATE "${runtime}/src" "${headers}")
target_compile_options(tree_sitter_python PRIVATE -w)
set_target_properties(tree_sitter_python PROPERTIES C_STANDARD 11)
