// Every method of the control wires, once: its path, its messages, and who may call it. Server and client
// name methods by these constants, so both are typed by the same line; tests/runtime/rpc/grpc/methods_test.cc
// holds the table against the .proto files.
#pragma once

#include "runtime/proto/head.pb.h"
#include "runtime/proto/raylet.pb.h"

namespace rayo::rpc {

// The head's certificate and our own uid at a unix socket may call everything.
enum class Access { kNodes, kClients, kNodesAndClients };

template <class Request, class Response>
struct UnaryMethod {
  const char* path;
  Access access;
};
template <class Request, class Response>
struct ServerStreamMethod {
  const char* path;
  Access access;
};
template <class Request, class Response>
struct ClientStreamMethod {
  const char* path;
  Access access;
};
template <class Request, class Response>
struct BidiMethod {
  const char* path;
  Access access;
};

namespace head {
inline constexpr BidiMethod<proto::NodeUp, proto::NodeDown> kAttach{"/rayo.proto.Head/Attach", Access::kNodes};
inline constexpr BidiMethod<proto::BeatRequest, proto::BeatReply> kBeat{"/rayo.proto.Head/Beat", Access::kNodes};
inline constexpr UnaryMethod<proto::RelayRequest, proto::RelayReply> kRelay{"/rayo.proto.Head/Relay", Access::kNodes};
inline constexpr UnaryMethod<proto::PlaceLeasesRequest, proto::PlaceLeasesReply> kPlaceLeases{
    "/rayo.proto.Head/PlaceLeases", Access::kNodes};
inline constexpr ServerStreamMethod<proto::FetchPackageRequest, proto::PackageChunk> kFetchPackage{
    "/rayo.proto.Head/FetchPackage", Access::kNodes};
inline constexpr UnaryMethod<proto::OfferPackage, proto::PackageReply> kOfferPackageToHead{
    "/rayo.proto.Head/OfferPackageToHead", Access::kNodes};
inline constexpr ClientStreamMethod<proto::PackageChunk, proto::PackageReply> kSendPackage{
    "/rayo.proto.Head/SendPackage", Access::kNodes};
inline constexpr UnaryMethod<proto::StatusRequest, proto::StatusReply> kGetStatus{"/rayo.proto.Head/GetStatus",
                                                                                  Access::kNodesAndClients};
inline constexpr UnaryMethod<proto::ListRequest, proto::ListReply> kList{"/rayo.proto.Head/List",
                                                                         Access::kNodesAndClients};
inline constexpr UnaryMethod<proto::WhyRequest, proto::WhyReply> kWhy{"/rayo.proto.Head/Why", Access::kNodesAndClients};
inline constexpr UnaryMethod<proto::FindLogRequest, proto::FindLogReply> kFindLog{"/rayo.proto.Head/FindLog",
                                                                                  Access::kNodesAndClients};
inline constexpr ServerStreamMethod<proto::StopRequest, proto::StopProgress> kStopCluster{
    "/rayo.proto.Head/StopCluster", Access::kClients};
inline constexpr UnaryMethod<proto::ConfigRequest, proto::ConfigReply> kGetConfig{"/rayo.proto.Head/GetConfig",
                                                                                  Access::kNodesAndClients};
}  // namespace head

namespace raylet {
inline constexpr UnaryMethod<proto::AskObjectRequest, proto::AskObjectReply> kAskObject{"/rayo.proto.Raylet/AskObject",
                                                                                        Access::kNodes};
inline constexpr UnaryMethod<proto::HoldObjectsRequest, proto::HoldObjectsReply> kHoldObjects{
    "/rayo.proto.Raylet/HoldObjects", Access::kNodes};
inline constexpr UnaryMethod<proto::DropCopiesRequest, proto::Done> kDropCopies{"/rayo.proto.Raylet/DropCopies",
                                                                                Access::kNodes};
inline constexpr UnaryMethod<proto::CheckReachRequest, proto::CheckReachReply> kCheckReach{
    "/rayo.proto.Raylet/CheckReach", Access::kNodes};
inline constexpr UnaryMethod<proto::EndLeaseFromRequest, proto::Done> kEndLeaseFrom{"/rayo.proto.Raylet/EndLeaseFrom",
                                                                                    Access::kNodes};
inline constexpr UnaryMethod<proto::CheckLeasesRequest, proto::CheckLeasesReply> kCheckLeases{
    "/rayo.proto.Raylet/CheckLeases", Access::kNodes};
inline constexpr UnaryMethod<proto::StatusRequest, proto::StatusReply> kGetLocalStatus{
    "/rayo.proto.Raylet/GetLocalStatus", Access::kClients};
inline constexpr UnaryMethod<proto::ListRequest, proto::ListReply> kListHere{"/rayo.proto.Raylet/ListHere",
                                                                             Access::kClients};
inline constexpr ServerStreamMethod<proto::ReadLogRequest, proto::LogChunk> kReadLog{"/rayo.proto.Raylet/ReadLog",
                                                                                     Access::kClients};
inline constexpr UnaryMethod<proto::StopRequest, proto::Done> kStopNode{"/rayo.proto.Raylet/StopNode",
                                                                        Access::kClients};
}  // namespace raylet

}  // namespace rayo::rpc
