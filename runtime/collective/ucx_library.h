// UcxLibrary: the functions of UCX, which is loaded when the first port is opened, not when the program starts: loading it takes over
// signals, and may rewrite code of the C library to see all calls of mmap(). What it must not do is said in the environment before main().
// Loaded once and never unloaded; any thread may ask for it.
#pragma once
#include "messages/error.h"

#include <ucp/api/ucp.h>

namespace troupe::collective {

// clang-format off
#define TROUPE_UCX_FUNCTIONS(FUNCTION) \
  FUNCTION(ucs_status_string) \
  FUNCTION(ucp_config_read) FUNCTION(ucp_config_modify) FUNCTION(ucp_config_release) FUNCTION(ucp_init_version) \
  FUNCTION(ucp_cleanup) \
  FUNCTION(ucp_worker_create) FUNCTION(ucp_worker_destroy) FUNCTION(ucp_worker_get_address) \
  FUNCTION(ucp_worker_release_address) FUNCTION(ucp_worker_progress) \
  FUNCTION(ucp_ep_create) FUNCTION(ucp_ep_close_nbx) FUNCTION(ucp_ep_flush_nbx) \
  FUNCTION(ucp_tag_send_nbx) FUNCTION(ucp_tag_recv_nbx) FUNCTION(ucp_tag_probe_nb) FUNCTION(ucp_tag_msg_recv_nbx) \
  FUNCTION(ucp_tag_recv_request_test) \
  FUNCTION(ucp_request_check_status) FUNCTION(ucp_request_free) FUNCTION(ucp_request_cancel)
// clang-format on

struct UcxLibrary {
#define TROUPE_UCX_MEMBER(name) decltype(&::name) name = nullptr;
  TROUPE_UCX_FUNCTIONS(TROUPE_UCX_MEMBER)
#undef TROUPE_UCX_MEMBER
};

/// An Error that says what to install.
Result<const UcxLibrary*> ucx_library();

}  // namespace troupe::collective
