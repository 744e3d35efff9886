# Layering by construction: headers are included as "<layer>/<name>.h", and a target sees
# "<layer>/" only when it links that layer. Each layer has its own include root, a folder that
# holds one symbolic link to the layer's sources.
function(urr_layer_root layer out)
    set(root ${CMAKE_BINARY_DIR}/include/${layer})
    get_filename_component(parent ${root}/${layer} DIRECTORY)
    file(MAKE_DIRECTORY ${parent})
    if(NOT EXISTS ${root}/${layer})
        file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${layer} ${root}/${layer} SYMBOLIC)
    endif()
    set(${out} ${root} PARENT_SCOPE)
endfunction()

# urr_library(NAME LAYER folder SOURCES a.c b.c LINKS other libs)
function(urr_library name)
    cmake_parse_arguments(arg "" "LAYER" "SOURCES;LINKS" ${ARGN})
    add_library(${name} STATIC ${arg_SOURCES})
    urr_layer_root(${arg_LAYER} root)
    target_include_directories(${name} PUBLIC ${root})
    target_link_libraries(${name} PUBLIC urr_flags ${arg_LINKS})
endfunction()

# urr_program(NAME SOURCES a.c LINKS libs): a daemon or a tool.
function(urr_program name)
    cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE urr_flags ${arg_LINKS})
    install(TARGETS ${name} RUNTIME)
endfunction()
