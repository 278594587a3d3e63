#include <boost/json.hpp>

#include "gpu/device.h"
#include "runtime/base/text.h"

namespace rayo::gpu {
namespace {

namespace json = boost::json;

json::object to_object(const Device& device) {
  json::array processes;
  for (const DeviceProcess& one : device.processes)
    processes.push_back({{"pid", one.pid}, {"memory_bytes", one.memory_bytes}});
  return {{"index", device.index},
          {"uuid", device.uuid},
          {"model", device.model},
          {"state", device.state},
          {"reason", device.reason},
          {"memory_total_bytes", device.memory_total_bytes},
          {"memory_used_bytes", device.memory_used_bytes},
          {"compute_major", device.compute_major},
          {"compute_minor", device.compute_minor},
          {"temperature_c", device.temperature_c},
          {"power_w", device.power_w},
          {"processes", std::move(processes)}};
}

// Throws what Boost.JSON throws for a missing member or another type.
Device to_device(const json::object& object) {
  Device device;
  device.index = json::value_to<int>(object.at("index"));
  device.uuid = json::value_to<std::string>(object.at("uuid"));
  device.model = json::value_to<std::string>(object.at("model"));
  device.state = json::value_to<std::string>(object.at("state"));
  device.reason = json::value_to<std::string>(object.at("reason"));
  device.memory_total_bytes = json::value_to<int64_t>(object.at("memory_total_bytes"));
  device.memory_used_bytes = json::value_to<int64_t>(object.at("memory_used_bytes"));
  device.compute_major = json::value_to<int>(object.at("compute_major"));
  device.compute_minor = json::value_to<int>(object.at("compute_minor"));
  device.temperature_c = json::value_to<int>(object.at("temperature_c"));
  device.power_w = json::value_to<double>(object.at("power_w"));
  for (const json::value& one : object.at("processes").as_array()) {
    device.processes.push_back({json::value_to<pid_t>(one.at("pid")), json::value_to<int64_t>(one.at("memory_bytes"))});
  }
  return device;
}

}  // namespace

std::string to_json(const DeviceList& list) {
  json::array devices;
  for (const Device& device : list.devices) devices.push_back(to_object(device));
  return json::serialize(json::object{{"schema", 1}, {"reason", list.reason}, {"devices", std::move(devices)}});
}

base::StatusOr<DeviceList> parse_devices(std::string_view text) {
  try {
    json::value document = json::parse({text.data(), text.size()});
    DeviceList list;
    list.reason = json::value_to<std::string>(document.at("reason"));
    for (const json::value& one : document.at("devices").as_array()) list.devices.push_back(to_device(one.as_object()));
    return list;
  } catch (const std::exception& error) {
    return base::failed(absl::StatusCode::kInvalidArgument,
                        base::cat("what rayo-gpu-probe printed cannot be read: ", error.what()));
  }
}

}  // namespace rayo::gpu
