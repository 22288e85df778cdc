# The first C++ block of README.md is examples/quickstart.cpp, to the letter.
file(READ ${CMAKE_CURRENT_LIST_DIR}/../examples/quickstart.cpp quickstart)
file(READ ${CMAKE_CURRENT_LIST_DIR}/../README.md readme)
string(FIND "${readme}" "```cpp\n${quickstart}```\n" position)
if(position EQUAL -1)
  message(FATAL_ERROR "README.md has no ```cpp block that is examples/quickstart.cpp, to the letter")
endif()
