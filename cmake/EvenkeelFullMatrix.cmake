# Preset full: each test configures, builds and tests one preset with one compiler, in a build folder of its own.
foreach(compiler IN ITEMS g++ clang++)
  foreach(preset IN ITEMS test avx2 sanitize dev)
    set(name ${compiler}.${preset})
    add_test(NAME full.${name}
      COMMAND ${CMAKE_COMMAND} -D PRESET=${preset} -D COMPILER=${compiler}
        -D BUILD_DIR=${PROJECT_BINARY_DIR}/${name} -P ${CMAKE_CURRENT_LIST_DIR}/run_preset.cmake
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(full.${name} PROPERTIES RUN_SERIAL ON TIMEOUT 7200)
  endforeach()
endforeach()
