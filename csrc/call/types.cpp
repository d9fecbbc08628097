#include "call/types.h"

#include "call/arguments.h"

namespace rl {

namespace {

template <class T>
struct Argument;

#define RL_ARGUMENT(T, function)                                                       \
  template <>                                                                          \
  struct Argument<T> {                                                                 \
    static T get(const Signature& s, int i, PyObject* o) { return function(s, i, o); } \
  };
RL_ARGUMENT(Var, tensor_argument)
RL_ARGUMENT(Vars, tensors_argument)
RL_ARGUMENT(int64_t, int_argument)
RL_ARGUMENT(double, float_argument)
RL_ARGUMENT(bool, bool_argument)
RL_ARGUMENT(Ints, ints_argument)
RL_ARGUMENT(DType, dtype_argument)
RL_ARGUMENT(Device, device_argument)
RL_ARGUMENT(std::string, string_argument)
RL_ARGUMENT(Generator*, generator_argument)
#undef RL_ARGUMENT
template <class T>
struct Argument<std::optional<T>> {
  static std::optional<T> get(const Signature& s, int i, PyObject* o) {
    if (o == Py_None) return std::nullopt;
    return Argument<T>::get(s, i, o);
  }
};
template <>
struct Argument<PyObject*> {
  static PyObject* get(const Signature&, int, PyObject* o) { return o; }
};

template <class T>
PyObject* attribute_of(const T&) {
  return nullptr;
}
PyObject* attribute_of(int64_t v) { return PyLong_FromLongLong(v); }
PyObject* attribute_of(double v) { return PyFloat_FromDouble(v); }
PyObject* attribute_of(bool v) { return PyBool_FromLong(v); }
PyObject* attribute_of(const std::string& v) { return PyUnicode_FromString(v.c_str()); }
PyObject* attribute_of(const Ints& v) { return attribute_value(v); }
PyObject* attribute_of(DType v) { return Py_NewRef(dtype_object(v)); }
template <class T>
PyObject* attribute_of(const std::optional<T>& v) {
  if (!v) Py_RETURN_NONE;
  return attribute_of(*v);
}

template <class T>
constexpr ArgumentType argument_type() {
  return {
      std::is_same_v<T, Var>    ? Holds::Tensor
      : std::is_same_v<T, Vars> ? Holds::Tensors
                                : Holds::Value,
      [](const Signature& s, int at, PyObject* given, void* to) {
        new (to) T(Argument<T>::get(s, at, given));
      },
      [](const void* from, void* to) { new (to) T(*static_cast<const T*>(from)); },
      std::is_trivially_destructible_v<T> ? nullptr
                                          : +[](void* value) { static_cast<T*>(value)->~T(); },
      [](CallKey& key, const void* value) { key.add(*static_cast<const T*>(value)); },
      [](Shift& shift, size_t at, const void* from, void* to) {
        new (to) T(shift(at, *static_cast<const T*>(from)));
      },
      [](const void* kept) { return attribute_of(*static_cast<const T*>(kept)); },
  };
}

template <class R>
constexpr ResultType result_type(ResultKind kind, const char* word, uint8_t count = 0) {
  return {
      kind,
      count,
      word,
      [](void* result) { new (result) R{}; },
      [](void* result) { static_cast<R*>(result)->~R(); },
      [](const Signature& s, void* result) -> PyObject* {
        R& r = *static_cast<R*>(result);
        if constexpr (std::is_same_v<R, bool>) return PyBool_FromLong(r);
        else if constexpr (std::is_same_v<R, Var>) return to_python(std::move(r));
        else if constexpr (std::is_same_v<R, TensorOrTuple>)
          return r.tuple ? tuple_of(s, r.vars.data(), r.vars.size())
                         : to_python(std::move(r.vars[0]));
        else return tuple_of(s, r.data(), r.size());
      },
  };
}

}  // namespace

namespace detail {

#define RL_DEFINE(T) constinit const ArgumentType ArgumentOf<T>::type = argument_type<T>();
RL_ARGUMENT_TYPES(RL_DEFINE)
#undef RL_DEFINE

constinit const ResultType ResultOf<Var>::type = result_type<Var>(ResultKind::One, "Tensor");
constinit const ResultType ResultOf<Vars>::type = result_type<Vars>(ResultKind::List, "tuple");
constinit const ResultType ResultOf<Pair>::type =
    result_type<Pair>(ResultKind::Several, "tuple", 2);
constinit const ResultType ResultOf<Triple>::type =
    result_type<Triple>(ResultKind::Several, "tuple", 3);
constinit const ResultType ResultOf<Quadruple>::type =
    result_type<Quadruple>(ResultKind::Several, "tuple", 4);
constinit const ResultType ResultOf<TensorOrTuple>::type =
    result_type<TensorOrTuple>(ResultKind::Other, "object");
constinit const ResultType ResultOf<bool>::type = result_type<bool>(ResultKind::Other, "bool");

}  // namespace detail

}  // namespace rl
