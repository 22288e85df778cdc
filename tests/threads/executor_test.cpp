#include "evenkeel/core/executor.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <unsupported/Eigen/CXX11/ThreadPool>

#include "evenkeel/core/context.hpp"

namespace evenkeel_test {
namespace {

using evenkeel::Context;
using evenkeel::Executor;
using evenkeel::Index;

/// How often each block was run.
std::vector<int> runs_of_blocks(const Executor& executor, Index blocks) {
  std::vector<std::atomic<int>> runs(static_cast<std::size_t>(blocks));
  executor.run(blocks, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) ++runs[static_cast<std::size_t>(i)];
  });
  return {runs.begin(), runs.end()};
}

void expect_each_block_once(const Executor& executor) {
  for (const Index blocks : {1, 2, 3, 5, 16, 63, 64, 1000}) {
    EXPECT_EQ(runs_of_blocks(executor, blocks), std::vector<int>(static_cast<std::size_t>(blocks), 1)) << blocks;
  }
}

TEST(Executor, IsSerialByDefaultAndRunsAllBlocksInOnePiece) {
  const Context context;
  EXPECT_TRUE(context.executor.is_serial());
  int calls = 0;
  context.executor.run(64, [&](Index first, Index last) {
    ++calls;
    EXPECT_EQ(first, 0);
    EXPECT_EQ(last, 64);
  });
  EXPECT_EQ(calls, 1);
}

TEST(Executor, RunsEachBlockOnceOnPoolsOfAnySize) {
  for (const int threads : {0, 1, 2, 3, 7, 16}) {
    SCOPED_TRACE(threads);
    Eigen::ThreadPool pool(threads);
    EXPECT_FALSE(Executor(pool).is_serial());
    for (int repeat = 0; repeat < 20; ++repeat) expect_each_block_once(pool);
  }
}

TEST(Executor, TakesThePoolByItsInterface) {
  Eigen::ThreadPool pool(3);
  Eigen::ThreadPoolInterface& any_pool = pool;
  expect_each_block_once(any_pool);
}

TEST(Executor, RunsNothingForNoBlocks) {
  Eigen::ThreadPool pool(2);
  for (const Executor& executor : {Executor(), Executor(pool)}) {
    executor.run(0, [](Index, Index) { ADD_FAILURE(); });
  }
}

TEST(Executor, RunsOneBlockOnTheCallersThread) {
  Eigen::ThreadPool pool(2);
  std::thread::id ran_on;
  Executor(pool).run(1, [&](Index, Index) { ran_on = std::this_thread::get_id(); });
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(Executor, RunsAllOnTheCallersThreadWithOneThreadOrNone) {
  for (const int threads : {0, 1}) {
    Eigen::ThreadPool pool(threads);
    Executor(pool).run(64, [&](Index first, Index last) {
      EXPECT_EQ(last - first, 64);
      EXPECT_LT(pool.CurrentThreadId(), 0);
    });
  }
}

TEST(Executor, UsesTheCallersThreadAndThoseOfThePool) {
  Eigen::ThreadPool pool(2);
  std::atomic<bool> by_caller{false}, by_pool{false};
  Executor(pool).run(2, [&](Index, Index) {
    (pool.CurrentThreadId() < 0 ? by_caller : by_pool) = true;
    while (!by_caller || !by_pool) std::this_thread::yield();  // a thread that takes both blocks would never come back
  });
  EXPECT_TRUE(by_caller && by_pool);
}

TEST(Executor, RunsSeriallyInsideATaskOfItsPool) {
  Eigen::ThreadPool pool(2);
  std::atomic<int> blocks{0};
  Executor(pool).run(8, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      const int id = pool.CurrentThreadId();
      Executor(pool).run(16, [&](Index inner_first, Index inner_last) {
        EXPECT_TRUE(id < 0 || pool.CurrentThreadId() == id);
        blocks += static_cast<int>(inner_last - inner_first);
      });
    }
  });
  EXPECT_EQ(blocks, 8 * 16);
}

TEST(Executor, DoesNotWaitForAPoolThatIsBusy) {
  Eigen::ThreadPool pool(2);
  std::atomic<int> busy{0};
  std::atomic<bool> released{false};
  for (int i = 0; i < 2; ++i) {
    pool.Schedule([&] {
      ++busy;
      while (!released) std::this_thread::yield();
    });
  }
  while (busy < 2) std::this_thread::yield();
  expect_each_block_once(pool);  // by the caller, who comes back before the pool is free
  released = true;
}

TEST(Executor, TakesCallsOfSeveralThreadsAtOnce) {
  Eigen::ThreadPool pool(3);
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 50; ++repeat) expect_each_block_once(pool);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(Executor, TakesAnyCallable) {
  const auto backwards = [](Index blocks, const Executor::Work& work) {
    for (Index i = blocks; i-- > 0;) work(i, i + 1);
  };
  expect_each_block_once(backwards);

  int calls = 0;
  auto two_threads = [&](Index blocks, const Executor::Work& work) {
    ++calls;
    std::thread other([&] { work(0, blocks / 2); });
    work(blocks / 2, blocks);
    other.join();
  };
  const Context context{.executor = two_threads};
  EXPECT_EQ(runs_of_blocks(context.executor, 64), std::vector<int>(64, 1));
  EXPECT_EQ(calls, 1);
}

TEST(Executor, PassesOnWhatSerialWorkThrows) {
  const auto work = [](Index, Index) { throw std::runtime_error("no memory"); };
  EXPECT_THROW(Executor().run(8, work), std::runtime_error);
}

}  // namespace
}  // namespace evenkeel_test
