#include "machine.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "descriptors.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "watch.hpp"

namespace gemmgen {

// The least remaining time of a launch for which starting further threads pays.
constexpr auto HELPERS_PAY = std::chrono::milliseconds(4);

Machine::Machine(Program& program, const Kernel& kernel, Launch& launch)
    : program_(program), kernel_(kernel), launch_(launch), clock_(launch.seed * 0x9E3779B9u), hints_(kernel.code.size()) {
  // With some seeds dynamic shared memory has exactly the alignment that it asks for.
  const bool just_aligned = launch.seed / 8 % 2 == 1;
  dynamic_start_ = FIRST_SHARED + (just_aligned && kernel.dynamic_alignment < FIRST_SHARED ? kernel.dynamic_alignment : 0);
  if (launch.shared_bytes > STATIC_SHARED - dynamic_start_ - FIRST_SHARED)
    fail("launch", "%u bytes of dynamic shared memory are more than the emulator has", unsigned(launch.shared_bytes));
  for (unsigned rank = 0; rank < launch.cluster; ++rank) blocks_.push_back(std::make_unique<Block>(*this, rank));
  if (launch.watch) watch_ = std::make_unique<Watch>(*this);
}

Machine::~Machine() = default;

bool Machine::tells_later(const Poison& why) { return watch_ != nullptr && watch_->tells_later(why); }

void Machine::run(std::atomic<std::size_t>& next, std::size_t most) {
  for (std::size_t place; most-- > 0 && (place = next.fetch_add(ranks())) < launch_.blocks.size();) run_cluster(launch_.blocks[place]);
}

void Machine::run_cluster(uint32_t first) {
  first_block_ = first;
  random_ = {launch_.seed * 0x2545F4914F6CDD1Du + first};
  std::vector<Warp*> order;
  for (auto& block : blocks_) {
    block->start(first + block->rank);
    for (auto& warp : block->warps) order.push_back(warp.get());
  }
  mbarriers_.start();
  tma_.start();
  if (watch_ != nullptr) watch_->start_cluster();
  cluster_barrier_.start();
  while (true) {
    if (launch_.expired) poll(*order.front(), order.front()->splits().front().at);
    if (launch_.seed != 0)
      for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random_.below(uint32_t(i + 1))]);
    bool progress = false;
    for (Warp* warp : order) progress |= warp->run();
    order.erase(std::remove_if(order.begin(), order.end(), [](const Warp* warp) { return warp->exited(); }), order.end());
    if (order.empty()) {
      if (watch_ != nullptr) watch_->finish_cluster();
      return;
    }
    if (!progress && !tma_.land_some()) refuse_deadlock();
  }
}

void Machine::wake(State state, uint32_t number) {
  for (auto& block : blocks_) block->wake(state, number);
}

void Machine::threads_exit(Warp& warp) {
  tma_.exit_threads(warp);
  if (watch_ != nullptr) watch_->exit_threads(warp);
  Block& block = warp.block();
  if (const unsigned group = warp.number() / WGMMA_WARPS; group < block.groups.size()) block.groups[group]->exit_threads(warp);
  if (block.alive == unsigned(std::popcount(warp.active))) {
    tma_.finish_block(block.rank);
    if (watch_ != nullptr) watch_->finish_block(block.rank);
  }
}

void Machine::poll(const Warp& warp, const Instruction* i) {
  if (launch_.expired) launch_.fail_late(warp.where(), place(i));
}

Block& Machine::owner(Warp& warp, const Instruction* i, uint32_t address) {
  const uint32_t window = address >> RANK_SHIFT;
  if (window == 0) return warp.block();
  if (window > ranks())
    fail("crash", "%s accesses shared memory of rank %u in a cluster of %u blocks (%s)", warp.where().c_str(), window - 1, ranks(),
         place(i).c_str());
  Block& found = block(window - 1);
  if (found.alive == 0)
    fail("crash", "%s accesses shared memory of block %u, which has exited: its shared memory may be another block's (%s)",
         warp.where().c_str(), found.index, place(i).c_str());
  return found;
}

std::string Machine::where(const Block& block, unsigned thread) const {
  return "block " + std::to_string(block.index) + ", thread " + std::to_string(thread);
}

std::string Machine::waits_for(const Block& block, const Split& split) {
  const std::string line = program_.lines(split.at->location), of_line = " of line " + line;
  const std::string before = line + (line.find(',') == std::string::npos ? "" : ",");
  switch (split.state) {
    case State::at_mbarrier: return "wait at line " + before + " for " + mbarriers_.describe(split.number);
    case State::at_registers: return "wait at line " + before + " for " + block.registers.describe(split.number);
    case State::at_cluster_barrier: return "wait at the cluster's barrier" + of_line;
    case State::at_warpgroup: return "wait at the warpgroup's instruction" + of_line;
    case State::converging:
      return "wait at " + (split.number == OF_BLOCK ? "the __syncthreads" : split.number == OF_BARRIER ? "a barrier" : std::string("the warp collective")) + of_line;
    case State::ready: return "run at line " + line;
    case State::at_barrier: break;
  }
  return block.waits_for(split.number);
}

// Reports threads that can never meet: how many wait where, with a few of them by number.
void Machine::refuse_deadlock() {
  constexpr std::size_t SOME = 4;
  std::map<std::pair<uint32_t, std::string>, std::vector<unsigned>> stops;
  bool asynchronous = false;
  for (const auto& block : blocks_)
    for (const auto& warp : block->warps)
      for (const Split& split : warp->splits()) {
        asynchronous |= split.state == State::at_mbarrier || split.state == State::at_registers || split.state == State::at_cluster_barrier;
        std::vector<unsigned>& threads = stops[{block->index, waits_for(*block, split)}];
        each_of(split.lanes, [&](unsigned lane) { threads.push_back(warp->first_thread() + lane); });
      }
  std::string text;
  const auto say = [&](uint32_t block, const std::string& what, const std::vector<unsigned>& threads) {
    text += (text.empty() ? "" : "; ") + std::to_string(threads.size()) + " of " + std::to_string(launch_.threads) + " threads ";
    if (ranks() > 1) text += "of block " + std::to_string(block) + " ";
    text += what + " (";
    for (std::size_t i = 0; i < std::min(SOME, threads.size()); ++i) text += (i == 0 ? "" : ", ") + std::to_string(threads[i]);
    text += threads.size() > SOME ? ", ...)" : ")";
  };
  for (const auto& [stop, threads] : stops) say(stop.first, stop.second, threads);
  for (const auto& block : blocks_) {
    std::vector<unsigned> exited;
    for (unsigned thread = 0; thread < launch_.threads; ++thread)
      if ((block->warps[thread / WARP]->alive() >> thread % WARP & 1) == 0) exited.push_back(thread);
    if (!exited.empty()) say(block->index, "have exited", exited);
  }
  fail("crash", "%s in %s %u: %s", asynchronous ? "deadlock" : "barrier divergence",
       ranks() == 1 ? "block" : "the cluster that begins with block", first_block_, text.c_str());
}

std::unique_ptr<Program> load_program(std::string_view ptx, std::string_view name, std::string_view instruction_table) {
  auto program = std::make_unique<Program>(std::string(ptx), std::string(name), instruction_table);
  program->coverage().share(program->module(), SITES);
  return program;
}

namespace {

// "8 4 128": bytes of each.
template <typename Sized>
std::string sizes(const std::vector<Sized>& all) {
  std::string text;
  for (const Sized& one : all) text += (text.empty() ? "" : " ") + std::to_string(one.bytes);
  return text;
}

void check_arguments(const Function& kernel, const std::vector<Argument>& arguments) {
  if (sizes(kernel.parameters) != sizes(arguments))
    fail("launch", "the kernel takes parameters of \"%s\" bytes and is launched with \"%s\"", sizes(kernel.parameters).c_str(),
         sizes(arguments).c_str());
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (kernel.parameters[i].offset != arguments[i].offset)
      fail("launch", "the kernel aligns parameter %zu to %u bytes, the launch to %u", i, unsigned(kernel.parameters[i].alignment),
           arguments[i].alignment);
}

}  // namespace

void run_launch(Program& program, Launch& launch) {
  const Kernel& kernel = program.kernel(launch.entry);
  const Function* const function = program.module().find(launch.entry);
  check_arguments(*function, launch.arguments);
  const Counted counted(program.coverage(), function);
  if (kernel.most_threads != 0 && launch.threads > kernel.most_threads)
    fail("launch", "blocks of %u threads are more than the kernel's __launch_bounds__ of %u: a GPU refuses them",
         unsigned(launch.threads), kernel.most_threads);
  if (kernel.cluster != 0 && kernel.cluster != launch.cluster)
    fail("launch", "a launch in clusters of %u blocks of a kernel whose __cluster_dims__ are %u: a GPU refuses it",
         unsigned(launch.cluster), kernel.cluster);
  for (const auto& [name, global] : program.globals())
    launch.allocations.add_variable(plain_name(name), reinterpret_cast<uint64_t>(global.start), global.variable->bytes, !global.variable->constant);
  std::atomic<std::size_t> next = 0;
  Machine first(program, kernel, launch);
  const auto start = std::chrono::steady_clock::now();
  first.run(next, 1);
  const std::chrono::steady_clock::duration passed = std::chrono::steady_clock::now() - start;
  const std::size_t left = (launch.blocks.size() - std::min<std::size_t>(next, launch.blocks.size())) / launch.cluster;
  if (launch.workers <= 1 || left < 2 || passed * left < HELPERS_PAY) return first.run(next);
  std::vector<std::thread> helpers;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&](Machine* machine) {
    try {
      const auto own = machine == nullptr ? std::make_unique<Machine>(program, kernel, launch) : nullptr;
      (machine == nullptr ? *own : *machine).run(next);
    } catch (...) {
      next = launch.blocks.size();
      const std::lock_guard lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
    }
  };
  for (std::size_t i = 1; i < std::min<std::size_t>(launch.workers, left); ++i) helpers.emplace_back(work, nullptr);
  work(&first);
  for (std::thread& helper : helpers) helper.join();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace gemmgen
