#include "runtime/rpc/grpc/client.h"

#include <atomic>
#include <condition_variable>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <mutex>

#include "runtime/base/check.h"
#include "runtime/rpc/grpc/client_call.h"
#include "runtime/rpc/grpc/wire.h"

namespace rayo::rpc {
namespace {

constexpr int kConnectLimitMs = 3000;  // of one attempt at one address
constexpr int kFirstRetryMs = 100;
constexpr int kLastRetryMs = 1000;  // a head that comes back is found within a second

// The certificate is signed by our CA (checked before); does its role say what we look for?
class RoleVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit RoleVerifier(RoleName expect) : expect_(expect) {}
  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* result) override {
    std::string seen = "no name";
    for (const auto& uri : request->uri_names()) {
      seen.assign(uri.data(), uri.size());
      if (auto name = RoleName::parse(seen); name && fits(*name)) return true;
    }
    *result = grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                           base::cat("rayo-verifier:its certificate says ", seen, " and not ", expected()));
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  bool fits(const RoleName& name) const {
    return name.role == expect_.role && (!expect_.cluster || name.cluster == expect_.cluster) &&
           (!expect_.id || name.id == expect_.id);
  }
  std::string expected() const { return Peer{false, expect_}.text(); }
  RoleName expect_;
};

// gRPC reads its targets as URIs: what a path may hold and a URI not is written as one has it.
std::string unix_target(const std::string& path) {
  std::string out = "unix:";
  for (char c : path) {
    if (c == '%')
      out += "%25";
    else if (c == '?')
      out += "%3F";
    else if (c == '#')
      out += "%23";
    else
      out += c;
  }
  return out;
}

std::shared_ptr<grpc::ChannelCredentials> tls_credentials(const TlsDial& dial) {
  auto provider = std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
      dial.identity.ca_pem,
      std::vector<grpc::experimental::IdentityKeyCertPair>{{dial.identity.key_pem, dial.identity.certificate_pem}});
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(provider);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_check_call_host(false);  // the role counts, not a host name
  options.set_certificate_verifier(grpc::experimental::ExternalCertificateVerifier::Create<RoleVerifier>(dial.expect));
  return grpc::experimental::TlsCredentials(options);
}

grpc::ChannelArguments arguments(int max_message_bytes) {
  grpc::ChannelArguments out;
  out.SetMaxReceiveMessageSize(max_message_bytes);
  out.SetMaxSendMessageSize(max_message_bytes);
  out.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  out.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  out.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  out.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  out.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  out.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // else "Too many pings"
  out.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectLimitMs);
  out.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstRetryMs);
  out.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLastRetryMs);
  out.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kLastRetryMs);
  out.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // no connection is shared with another identity
  out.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  out.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  return out;
}

// A unary call in flight. It belongs to who waits for it and never to gRPC's callback: its context holds the
// channel, and a channel whose last owner lets go on a thread of gRPC makes that thread join itself.
struct UnaryCall {
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;
  grpc::Status status;
};

std::optional<std::string> next_step_of(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerTrailingMetadata();
  auto entry = metadata.find(kNextStepKey);
  if (entry == metadata.end()) return std::nullopt;
  return std::string(entry->second.data(), entry->second.size());
}

}  // namespace

struct Channel::State {
  struct Way {
    Way(std::string address, std::shared_ptr<grpc::Channel> to)
        : place(std::move(address)), channel(std::move(to)), stub(channel) {}
    bool ready() const { return channel->GetState(false) == GRPC_CHANNEL_READY; }
    bool failing() const { return channel->GetState(false) == GRPC_CHANNEL_TRANSIENT_FAILURE; }
    std::string place;
    std::shared_ptr<grpc::Channel> channel;
    grpc::GenericStub stub;
  };
  // Runs a prepared call to its end on the caller's terms (fiber or thread).
  using Await = std::function<void(Way&, UnaryCall&)>;

  Way& way(size_t index) { return *ways[index % ways.size()]; }
  size_t choose();
  base::Status translate(const Way& way, const char* path, const grpc::Status& status,
                         const grpc::ClientContext& context) const;
  base::StatusOr<std::string> call(const char* path, const std::string& request, base::TimePoint deadline,
                                   const Await& await);

  std::vector<std::unique_ptr<Way>> ways;
  std::atomic<size_t> current{0};
  bool local = false;
};

// The way in use, unless its connection fails and another may do better.
size_t Channel::State::choose() {
  size_t index = current.load(std::memory_order_relaxed);
  for (size_t i = 0; i < ways.size(); ++i)
    if (way(index + i).ready()) return index + i;
  return ways.size() > 1 && way(index).failing() ? index + 1 : index;
}

base::Status Channel::State::translate(const Way& way, const char* path, const grpc::Status& status,
                                       const grpc::ClientContext& context) const {
  if (status.ok()) return absl::OkStatus();
  return from_grpc(status, next_step_of(context), {way.place, path, local, way.ready()});
}

base::StatusOr<std::string> Channel::State::call(const char* path, const std::string& request, base::TimePoint deadline,
                                                 const Await& await) {
  size_t first = choose();
  base::Status error;
  for (size_t i = 0; i < ways.size(); ++i) {
    Way& tried = way(first + i);
    UnaryCall call;
    call.request = to_buffer(request);
    if (deadline != base::kForever) call.context.set_deadline(to_wall(deadline));
    await(tried, call);
    if (call.status.ok()) {
      current.store((first + i) % ways.size(), std::memory_order_relaxed);
      return to_string(call.response);
    }
    error = translate(tried, path, call.status, call.context);
    // The next address only where this one was surely not reached.
    bool not_reached = call.status.error_message().starts_with("failed to connect to all addresses");
    if (!not_reached || base::system_clock().now() >= deadline) break;
  }
  return error;
}

std::unique_ptr<Channel> Channel::tls(TlsDial dial) {
  RAYO_CHECK(!dial.addresses.empty(), "there is somebody to call");
  prepare_grpc();
  auto state = std::make_shared<State>();
  auto credentials = tls_credentials(dial);
  for (const auto& address : dial.addresses)
    state->ways.push_back(std::make_unique<State::Way>(
        address,
        grpc::CreateCustomChannel(base::cat("dns:///", address), credentials, arguments(dial.max_message_bytes))));
  return std::unique_ptr<Channel>(new Channel(std::move(state)));
}

std::unique_ptr<Channel> Channel::local(const base::Path& socket) {
  prepare_grpc();
  auto state = std::make_shared<State>();
  state->local = true;
  state->ways.push_back(std::make_unique<State::Way>(
      socket.string(), grpc::CreateCustomChannel(unix_target(socket.string()), grpc::InsecureChannelCredentials(),
                                                 arguments(TlsDial().max_message_bytes))));
  return std::unique_ptr<Channel>(new Channel(std::move(state)));
}

Channel::Channel(std::shared_ptr<State> state) : state_(std::move(state)) {}
Channel::~Channel() = default;

base::StatusOr<std::string> Channel::call_bytes(const char* path, std::string request, base::TimePoint deadline) {
  auto state = state_;
  base::Loop* loop = base::current_loop();
  return state->call(path, request, deadline, [&](State::Way& way, UnaryCall& call) {
    base::Event done;
    way.stub.UnaryCall(&call.context, path, {}, &call.request, &call.response, [&](const grpc::Status& status) {
      call.status = status;
      loop->defer([&done] { done.set(); });
    });
    if (done.wait()) return;
    call.context.TryCancel();
    base::Shield shield;
    done.wait();
  });
}

base::StatusOr<std::string> Channel::call_bytes_blocking(const char* path, std::string request,
                                                         base::Duration timeout) {
  auto deadline = base::deadline_after(base::system_clock().now(), timeout);
  return state_->call(path, request, deadline, [&](State::Way& way, UnaryCall& call) {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    way.stub.UnaryCall(&call.context, path, {}, &call.request, &call.response, [&](const grpc::Status& status) {
      std::lock_guard lock(mutex);
      call.status = status;
      done = true;
      changed.notify_one();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
  });
}

std::unique_ptr<ClientByteStream> Channel::open_bytes(const char* path, base::TimePoint deadline) {
  auto state = state_;
  size_t index = state->choose() % state->ways.size();
  State::Way& way = state->way(index);
  auto call = std::make_unique<ClientCall>(
      *base::current_loop(), [state, index, path](const grpc::Status& status, const grpc::ClientContext& context) {
        return state->translate(state->way(index), path, status, context);
      });
  state->current.store(index, std::memory_order_relaxed);
  call->start(way.stub, path, deadline);
  return call;
}

}  // namespace rayo::rpc
