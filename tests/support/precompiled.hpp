// What nearly every test reads before its first line, read once.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "evenkeel/evenkeel.hpp"
#include "support/compiled_norms.hpp"
