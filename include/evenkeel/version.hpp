#pragma once

// The version of evenkeel, by semantic versioning. CMake reads it from here.
#define EVENKEEL_VERSION_MAJOR 0
#define EVENKEEL_VERSION_MINOR 1
#define EVENKEEL_VERSION_PATCH 0
