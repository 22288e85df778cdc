#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <type_traits>

#include "evenkeel/core/shape.hpp"

namespace evenkeel {
inline namespace EVENKEEL_ARCH {

/// Who runs the blocks of an operation: the caller's thread alone (the default), or the caller's threads.
///
/// Operations cut their work into blocks by sizes alone, so that results do not depend on who runs which block, and
/// in which order. An Executor views a pool or a callable, which has to live as long as it is used; it is as cheap to
/// copy as two pointers. No thread is ever started.
/// @code
///   Eigen::ThreadPool pool(4);                      // any Eigen::ThreadPoolInterface
///   layer.forward(x, saved, {.executor = pool});
///
///   const auto openmp = [](Index blocks, const Executor::Work& work) {
///   #pragma omp parallel for schedule(dynamic)
///     for (Index i = 0; i < blocks; ++i) work(i, i + 1);
///   };
///   layer.forward(x, saved, {.executor = openmp});
///
///   const auto threads = [](Index blocks, const Executor::Work& work) {
///     std::thread other([&] { work(0, blocks / 2); });
///     work(blocks / 2, blocks);
///     other.join();
///   };
/// @endcode
///
/// A callable runs work(first, last), the blocks [first, last), for ranges that are all of [0, blocks) together, on
/// whichever threads it likes, and returns when all are done. It is not called for a single block.
///
/// Of a pool of n threads at most n - 1 help the caller. A call by one of its own threads runs on that thread alone, as
/// does one with a pool of 1 or 0 threads; so a task may use the pool that it runs on. A call never waits for tasks
/// that the pool has not begun: whoever is free takes the next blocks, if need be the caller all of them.
///
/// Errors    What work throws reaches the caller where it is run serially; elsewhere it ends the program.
class Executor {
 public:
  /// The blocks of one call of run: viewed, not owned.
  class Work {
   public:
    template <class Fn>
    explicit Work(const Fn& fn) noexcept
        : fn_(&fn),
          call_([](const void* of, Index first, Index last) noexcept { (*static_cast<const Fn*>(of))(first, last); }) {}
    /// Runs blocks [first, last).
    void operator()(Index first, Index last) const noexcept { call_(fn_, first, last); }

   private:
    const void* fn_;
    void (*call_)(const void*, Index, Index) noexcept;
  };

  Executor() = default;

  /// Of a callable void(Index blocks, const Executor::Work& work).
  template <class Callable>
  requires std::is_invocable_v<Callable&, Index, const Work&> Executor(Callable& callable)
  noexcept  // NOLINT(google-explicit-constructor): a callable is an executor
      : object_(&callable), start_([](const void* of, Index blocks, const Work& work) {
          (*static_cast<Callable*>(const_cast<void*>(of)))(blocks, work);
        }) {}

  /// Of a pool that has the members of Eigen::ThreadPoolInterface.
  template <class Pool>
  requires requires(Pool& pool) {
    pool.Schedule([] {});
    pool.NumThreads() + pool.CurrentThreadId();
  }
  Executor(Pool& pool) noexcept  // NOLINT(google-explicit-constructor): a pool is an executor
      : object_(&pool), start_([](const void* of, Index blocks, const Work& work) {
          share(*static_cast<Pool*>(const_cast<void*>(of)), blocks, work);
        }) {}

  /// Whether everything runs on the caller's thread, in one piece.
  bool is_serial() const noexcept { return !start_; }

  /// Calls fn(first, last) for ranges of blocks that are all of [0, blocks) together, each block once.
  template <class Fn>
  void run(Index blocks, const Fn& fn) const {
    if (blocks <= 0) return;
    if (blocks == 1 || is_serial()) return fn(Index(0), blocks);
    start_(object_, blocks, Work(fn));
  }

 private:
  /// Blocks, taken range by range by all who help. It outlives the call for the sake of tasks that begin late, and
  /// find nothing left to do.
  class Shares {
   public:
    Shares(const Work& work, Index blocks, Index threads) noexcept
        : work_(work), blocks_(blocks), threads_(threads), left_(static_cast<int>(blocks)) {}

    void take() noexcept {
      for (Index first = next_.load(std::memory_order_relaxed); first < blocks_;) {
        const Index last = first + range_from(first);
        if (!next_.compare_exchange_weak(first, last, std::memory_order_relaxed)) continue;
        work_(first, last);
        finish(static_cast<int>(last - first));
        first = next_.load(std::memory_order_relaxed);
      }
    }
    void wait() const noexcept {
      for (int left; (left = left_.load(std::memory_order_acquire)) > 0;) left_.wait(left, std::memory_order_acquire);
    }

   private:
    /// Half of everybody's share of what is left: long ranges are cheap, short ones at the end leave nobody idle.
    Index range_from(Index first) const noexcept { return std::max<Index>(1, (blocks_ - first) / (2 * threads_)); }
    void finish(int count) noexcept {
      if (left_.fetch_sub(count, std::memory_order_acq_rel) == count) left_.notify_all();
    }

    const Work work_;
    const Index blocks_, threads_;
    std::atomic<Index> next_{0};
    std::atomic<int> left_;
  };

  template <class Pool>
  static void share(Pool& pool, Index blocks, const Work& work) {
    const Index threads = std::min<Index>(pool.NumThreads(), blocks);
    if (threads < 2 || pool.CurrentThreadId() >= 0) return work(0, blocks);
    const auto shares = std::make_shared<Shares>(work, blocks, threads);
    for (Index i = 1; i < threads; ++i) pool.Schedule([shares] { shares->take(); });
    shares->take();
    shares->wait();
  }

  const void* object_ = nullptr;
  void (*start_)(const void*, Index, const Work&) = nullptr;
};

}  // namespace EVENKEEL_ARCH
}  // namespace evenkeel
