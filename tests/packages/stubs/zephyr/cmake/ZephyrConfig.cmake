# As Zephyr: enables C, defines the library `app`, and adds the modules, whose options are CONFIG_*.
project(Zephyr C)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_FLAGS "-Wall -Wextra -Wpedantic -Werror")
include_directories(${CMAKE_CURRENT_LIST_DIR}/../include)

macro(zephyr_include_directories)
    foreach(folder ${ARGN})
        target_include_directories(zephyr_interface INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
    endforeach()
endmacro()

macro(zephyr_library_named name)
    set(ZEPHYR_CURRENT_LIBRARY ${name})
    add_library(${name} STATIC)
    target_link_libraries(${name} PRIVATE zephyr_interface)
    target_link_libraries(app PRIVATE ${name})
endmacro()

macro(zephyr_library_sources)
    target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endmacro()

macro(zephyr_library_compile_options)
    target_compile_options(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endmacro()

add_library(zephyr_interface INTERFACE)
add_executable(app)
target_link_libraries(app PRIVATE zephyr_interface)
foreach(module ${ZEPHYR_EXTRA_MODULES})
    add_subdirectory(${module} ${CMAKE_BINARY_DIR}/module)
endforeach()
