// The walk shared by all reductions: which elements go together, and on which thread.
//
// A policy P reduces elements of type P::C to partial results, one or two values per output
// (P::A and P::B), and says how two partial results become one:
//   rows(x, count, n, out)              count contiguous rows of n <= kBlock elements
//   bfloats(x, count, n, out)           the same of bfloat16, where the policy can read it
//   tile(x, stride, rows, width, out)   the columns of a tile of at most P::kRows rows
//   merge(to, n_to, from, n_from, width)  `from` describes the elements after those of `to`
// Blocks are merged pairwise, so rounding errors grow with the logarithm of n. Cuts depend on
// the shape alone.
//
// The time is in the policies: the walk is compiled once (reduce_driver.cpp), and their functions
// take arrays without types.
#pragma once

#include <algorithm>

#include "kernels/cpu/block.h"
#include "kernels/cpu/parallel.h"

namespace rl::cpu {

constexpr int64_t kBlock = 2048;   // elements of a row reduced in one go
constexpr int64_t kTile = 512;     // columns reduced in one go
constexpr int64_t kPiece = 32768;  // elements of a row that are summed apart

template <class P>
struct Partial {
  typename P::A* a;
  typename P::B* b;
};

// The second value of policies with one.
struct Nothing {};

// Partial results of neighbouring outputs, and a policy, without types.
struct Parts {
  char *a, *b;
};
struct Policy {
  int64_t element, a, b;  // bytes of C, A and B
  int64_t rows_at_once;
  bool commutes;
  void (*rows)(const void* x, int64_t count, int64_t n, Parts out);
  void (*bfloats)(const void* x, int64_t count, int64_t n, Parts out);  // rows of them, or null
  void (*tile)(const void* x, int64_t stride, int64_t rows, int64_t width, Parts out);
  void (*merge)(Parts to, int64_t n_to, Parts from, int64_t n_from, int64_t width);
};
inline constexpr int64_t kPartBytes = 16;  // of the partial results of an output, at most

template <class P>
Partial<P> typed(Parts parts) {
  return {reinterpret_cast<typename P::A*>(parts.a), reinterpret_cast<typename P::B*>(parts.b)};
}

template <class P>
constexpr Policy make_policy() {
  constexpr bool one = std::is_same_v<typename P::B, Nothing>;
  constexpr int64_t a = sizeof(typename P::A), b = one ? 0 : sizeof(typename P::B);
  static_assert(one ? a <= kPartBytes : a <= kPartBytes / 2 && b <= kPartBytes / 2);
  Policy p{
      sizeof(typename P::C), a, b, P::kRows, P::kCommutes, P::rows, nullptr, P::tile, P::merge};
  if constexpr (requires { P::bfloats(nullptr, 0, 0, Parts{}); }) p.bfloats = P::bfloats;
  return p;
}
template <class P>
inline constexpr Policy policy_of = make_policy<P>();

// Who is given the results: put(self, first output, parts, count).
struct Finish {
  const void* self;
  void (*put)(const void* self, int64_t at, Parts parts, int64_t count);
};

// Reduces [outer, n, inner] to [outer, inner].
void reduce(const Policy& policy, const BlockReader& source, int64_t outer, int64_t n,
            int64_t inner, const Finish& finish);
// `count` elements of the source from `offset` on, to one partial result.
void reduce_row(const Policy& policy, const BlockReader& source, int64_t offset, int64_t count,
                Parts out);

template <class P, class F>
void reduce(const Source<typename P::C>& source, int64_t outer, int64_t n, int64_t inner,
            const F& finish) {
  reduce(policy_of<P>, source, outer, n, inner,
         {&finish, [](const void* self, int64_t at, Parts parts, int64_t count) {
            (*static_cast<const F*>(self))(at, typed<P>(parts), count);
          }});
}

}  // namespace rl::cpu
