// What a starting node says on the terminal: a progress bar while the model loads, then its facts and the address of the page.
// Called from actor threads; one mutex keeps the lines whole.
#pragma once
#include "cluster/node.h"
#include "cluster/options.h"

#include <cstddef>
#include <mutex>
#include <string>

namespace troupe::cluster {

class StartReport {
 public:
  StartReport();
  /// The bar; on a terminal only.
  void progress(std::size_t done, std::size_t total);
  /// The lines at the end; the address goes to stdout, in a line of its own that scripts may wait for.
  void ready(const Options& options, const ReadyNode& node);
  /// Takes the bar away.
  void clear();
  /// A line of its own on stderr, in place of the bar.
  void line(const std::string& text);

 private:
  std::mutex mutex_;
  bool terminal_ = false, drawn_ = false;
  void erase_bar();
};

}  // namespace troupe::cluster
