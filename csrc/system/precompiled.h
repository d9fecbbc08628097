// What most files include and no edit changes, parsed once for all of them.
#pragma once

#ifndef RL_OWN_LIBRARIES
#include "system/symbol_versions.h"
#endif

// Templates for the special functions of <cmath>, which nothing here calls, were instantiated anew
// in each file: a quarter of what these headers cost there.
#include <cstddef>
#ifdef _GLIBCXX_USE_STD_SPEC_FUNCS
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#define _GLIBCXX_USE_STD_SPEC_FUNCS 0
#endif

#include <Python.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>
