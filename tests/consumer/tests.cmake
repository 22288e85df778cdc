# Builds the consumer project in the three CMake ways and with the compiler alone, and the program without exceptions.
set(here ${CMAKE_CURRENT_LIST_DIR})
set(build_dir ${CMAKE_CURRENT_BINARY_DIR}/consumer)
set(prefix ${build_dir}/installed)
set(includes "-I$<JOIN:$<TARGET_PROPERTY:evenkeel,INTERFACE_INCLUDE_DIRECTORIES>,;-I>")

# evenkeel_add_consumer_test(<name> <way> [<cmake option>...])
function(evenkeel_add_consumer_test name way)
  set(options -G ${CMAKE_GENERATOR} -D CMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} ${ARGN})
  add_test(NAME consumer.${name} COMMAND ${CMAKE_COMMAND} -D WAY=${way} -D BUILD_DIR=${build_dir}/${name}
    -D "OPTIONS=${options}" -P ${here}/build.cmake)
  set_tests_properties(consumer.${name} PROPERTIES FIXTURES_REQUIRED installed LABELS consumer)
endfunction()

if(EVENKEEL_INSTALL)
  add_test(NAME consumer.install COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --prefix ${prefix})
  set_tests_properties(consumer.install PROPERTIES FIXTURES_SETUP installed LABELS consumer)
  evenkeel_add_consumer_test(find_package find_package -D CMAKE_PREFIX_PATH=${prefix})
endif()
evenkeel_add_consumer_test(add_subdirectory add_subdirectory)
evenkeel_add_consumer_test(fetch_content fetch_content)

# An Eigen that calls itself 5.0.0, with the headers of the one found: Eigen 5 refuses whoever asks for 3.4.
get_target_property(eigen_include_dirs Eigen3::Eigen INTERFACE_INCLUDE_DIRECTORIES)
set(eigen_5 -D Eigen3_DIR=${here}/eigen_5 -D EIGEN_5_INCLUDE_DIRS=${eigen_include_dirs})
if(EVENKEEL_INSTALL)
  evenkeel_add_consumer_test(find_package_eigen_5 find_package -D CMAKE_PREFIX_PATH=${prefix} ${eigen_5})
endif()
evenkeel_add_consumer_test(add_subdirectory_eigen_5 add_subdirectory ${eigen_5})

# An include path is enough.
file(MAKE_DIRECTORY ${build_dir})
add_test(NAME consumer.plain.build COMMAND_EXPAND_LISTS
  COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 "${includes}" ${here}/main.cpp ${here}/other.cpp -o ${build_dir}/plain)
add_test(NAME consumer.plain.run COMMAND ${build_dir}/plain)
set_tests_properties(consumer.plain.build PROPERTIES FIXTURES_SETUP plain LABELS consumer)
set_tests_properties(consumer.plain.run PROPERTIES FIXTURES_REQUIRED plain LABELS consumer)

add_executable(no_exceptions ${here}/no_exceptions.cpp)
target_compile_options(no_exceptions PRIVATE -fno-exceptions)
target_link_libraries(no_exceptions PRIVATE evenkeel_dev)
add_test(NAME consumer.no_exceptions COMMAND no_exceptions)
set_tests_properties(consumer.no_exceptions PROPERTIES PASS_REGULAR_EXPRESSION "evenkeel::.*aborted")
