// Memory that folds use again: fresh memory is paid for at its first touch, page by page.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <cstdlib>
#include <list>
#include <mutex>
#include <new>

namespace treefold {

class Pool {
 public:
  static Pool& shared() {
    static Pool* pool = new Pool();  // never destroyed: tensors may outlive every static
    return *pool;
  }

  // A tensor with a block of its own, which comes back here when the tensor is gone.
  at::Tensor tensor(at::IntArrayRef sizes, at::ScalarType type) {
    int64_t count = 1;
    for (const int64_t size : sizes) count *= size;
    const Block block = take(static_cast<size_t>(count) * c10::elementSize(type));
    return at::from_blob(
        block.data, sizes, [block](void*) { shared().give_back(block); },
        at::TensorOptions().dtype(type));
  }

  void release() {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (!idle_.empty()) drop_oldest();
    most_ = now_;
  }

 private:
  struct Block {
    void* data;
    size_t bytes;
  };

  static constexpr size_t kMaxIdle = size_t(1) << 28;

  // The smallest idle block that is large enough and not wastefully larger, or a new one.
  Block take(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    bytes = std::max(bytes, size_t(64));
    auto best = idle_.end();
    for (auto block = idle_.begin(); block != idle_.end(); ++block) {
      const bool fits = bytes <= block->bytes && block->bytes <= 2 * bytes;
      if (fits && (best == idle_.end() || block->bytes < best->bytes)) best = block;
    }
    Block found;
    if (best != idle_.end()) {
      found = *best;
      idle_bytes_ -= found.bytes;
      idle_.erase(best);
    } else {
      found.bytes = (bytes + bytes / 8 + 63) / 64 * 64;
      found.data = std::aligned_alloc(64, found.bytes);
      if (found.data == nullptr) throw std::bad_alloc();
    }
    now_ += found.bytes;
    most_ = std::max(most_, now_);
    trim();
    return found;
  }

  void give_back(Block block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    now_ -= block.bytes;
    idle_bytes_ += block.bytes;
    idle_.push_back(block);
    trim();
  }

  // Idle blocks are at most 256 MB; or more, as long as all is no more than was in use at once.
  void trim() {
    while (!idle_.empty() && idle_bytes_ > std::max(kMaxIdle, most_ - now_)) drop_oldest();
  }

  void drop_oldest() {
    std::free(idle_.front().data);
    idle_bytes_ -= idle_.front().bytes;
    idle_.pop_front();
  }

  std::mutex mutex_;
  std::list<Block> idle_;
  size_t idle_bytes_ = 0, now_ = 0, most_ = 0;
};

template <class T>
inline at::Tensor leased(at::IntArrayRef sizes) {
  return Pool::shared().tensor(sizes, c10::CppTypeToScalarType<T>::value);
}

}  // namespace treefold
