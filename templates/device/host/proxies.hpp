// Proxy fences: what ordinary stores have written TMA and wgmma see once a fence has covered it, in the thread that stored or
// in one that came after it.
#pragma once

#include <vector>

#include "clocks.hpp"
#include "races.hpp"

namespace gemmgen {

class ProxyFences {
 public:
  void start_block() { fences_.clear(); }

  // The running thread's. Who asks for what is covered watches.
  void fence() {
    if (!watching) return;
    Clock past;
    clocks.release(past);
    fences_.push_back({clocks.now(Place(), Kind::read), std::move(past)});
  }

  // What the fences covered that come before the running thread's next access; nothing where no access is watched.
  Clock covered() const {
    Clock all;
    if (!watching) return all;
    for (const Fence& fence : fences_)
      if (clocks.before(fence.at)) join(all, fence.past);
    return all;
  }

 private:
  struct Fence {
    Access at;
    Clock past;
  };
  std::vector<Fence> fences_;
};

}  // namespace gemmgen
