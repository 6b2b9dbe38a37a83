// Threads: each has its own share of the rows, from end to end, and multiplies alone.
#pragma once

#include <ATen/Parallel.h>

#include <cstdint>

// Part of MKL's documented interface; null where torch is built without MKL.
extern "C" __attribute__((weak)) int MKL_Set_Num_Threads_Local(int num_threads);

namespace treefold {

// How many threads share a product that this thread asks for; gives the number before.
inline int64_t set_product_threads(int64_t count) {
  return MKL_Set_Num_Threads_Local ? MKL_Set_Num_Threads_Local(static_cast<int>(count)) : 0;
}

// Inside, this thread's products are not shared with others.
class MultipliesAlone {
 public:
  MultipliesAlone() : before_(set_product_threads(1)) {}
  ~MultipliesAlone() { set_product_threads(before_); }
  MultipliesAlone(const MultipliesAlone&) = delete;
  MultipliesAlone& operator=(const MultipliesAlone&) = delete;

 private:
  int64_t before_;
};

struct Range {
  int64_t first, last;
};

inline Range share(int64_t part, int64_t num_parts, int64_t count) {
  return {part * count / num_parts, (part + 1) * count / num_parts};
}

// Call `work(part, range)` for every part of `count` things, each on a thread.
template <class Work>
inline void in_parts(int64_t num_parts, int64_t count, const Work& work) {
  if (num_parts <= 1) {
    work(0, Range{0, count});
    return;
  }
  at::parallel_for(0, num_parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) work(part, share(part, num_parts, count));
  });
}

// Work of less than about a millisecond is done by one thread: several would wait for each other.
constexpr int64_t kWorthSharing = int64_t(1) << 25;
// The gates of one number of state take as long as so many multiply-adds.
constexpr int64_t kGates = 200;
// So many numbers of a level's outcome are worth another thread.
constexpr int64_t kMinNumbers = int64_t(1) << 11;

inline int64_t parts_worth(int64_t num_numbers, int64_t channels) {
  return num_numbers * (12 * channels + kGates) < kWorthSharing ? 1 : at::get_num_threads();
}

inline int64_t parts_of_level(int64_t num_numbers, int64_t max_parts) {
  return std::max(int64_t(1), std::min(max_parts, num_numbers / kMinNumbers));
}

}  // namespace treefold
