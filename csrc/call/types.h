// The types that forward may take and return, as the driver sees them. What is known of each is
// compiled once (call/types.cpp), not for each op.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "autograd/sharing.h"
#include "call/shift.h"
#include "call/signature.h"
#include "tensor/objects.h"

namespace rl {

struct ArgumentType {
  enum class Holds : uint8_t { Tensor, Tensors, Value };

  Holds holds;
  void (*parse)(const Signature& s, int at, PyObject* given, void* to);
  void (*copy)(const void* from, void* to);
  void (*destroy)(void* value);  // null: nothing to end
  void (*key)(CallKey& key, const void* value);
  void (*shift)(Shift& shift, size_t at, const void* from, void* to);
  PyObject* (*attribute)(const void* kept);  // _saved_dim and the like; of values
};
using Holds = ArgumentType::Holds;

enum class ResultKind : uint8_t { One, Several, List, Other };

struct ResultType {
  ResultKind kind;
  uint8_t count;     // of ResultKind::Several
  const char* word;  // see OpInfo
  void (*make)(void* result);
  void (*drop)(void* result);
  PyObject* (*to_python)(const Signature& s, void* result);
};

// A tensor, or a tuple of them where the arguments ask for one.
struct TensorOrTuple {
  Vars vars;
  bool tuple = false;
};

namespace detail {

// clang-format off
#define RL_ARGUMENT_TYPES(X)                                                              \
  X(Var) X(Vars) X(int64_t) X(double) X(bool) X(Ints) X(DType) X(Device) X(std::string)   \
  X(Generator*) X(PyObject*) X(std::optional<int64_t>) X(std::optional<double>)           \
  X(std::optional<bool>) X(std::optional<Ints>) X(std::optional<DType>)                   \
  X(std::optional<Device>) X(std::optional<std::string>)
#define RL_RESULT_TYPES(X) X(Var) X(Vars) X(Pair) X(Triple) X(Quadruple) X(TensorOrTuple) X(bool)
// clang-format on
using Pair = std::array<Var, 2>;
using Triple = std::array<Var, 3>;
using Quadruple = std::array<Var, 4>;

template <class T>
struct ArgumentOf;
template <class R>
struct ResultOf;
#define RL_DECLARE(T)               \
  template <>                       \
  struct ArgumentOf<T> {            \
    static const ArgumentType type; \
  };
RL_ARGUMENT_TYPES(RL_DECLARE)
#undef RL_DECLARE
#define RL_DECLARE(R)             \
  template <>                     \
  struct ResultOf<R> {            \
    static const ResultType type; \
  };
RL_RESULT_TYPES(RL_DECLARE)
#undef RL_DECLARE

}  // namespace detail

}  // namespace rl
