#include "scheduler/capacity.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/base/units.h"

namespace rayo::scheduler {

using base::cat;

namespace {

constexpr int64_t kWhole = Amount::kScale;

struct GpuAsk {
  int64_t units = 0;
  int64_t memory_bytes = 0;
  bool none() const { return units == 0 && memory_bytes == 0; }
  bool whole() const { return units >= kWhole; }
  size_t devices() const { return whole() ? static_cast<size_t>(units / kWhole) : 1; }
};

GpuAsk gpu_ask(const Demand& demand) { return {demand.resources.get("gpu").units, demand.gpu_memory_bytes}; }

bool serves(const Device& device, const GpuAsk& ask) {
  if (!device.usable || device.free_memory_bytes() < ask.memory_bytes) return false;
  return ask.whole() ? device.untouched() : device.free_units() >= ask.units;
}

// Best fit: what leaves the least over comes first.
bool tighter(const Device& a, const Device& b) {
  if (a.free_units() != b.free_units()) return a.free_units() < b.free_units();
  return a.free_memory_bytes() < b.free_memory_bytes();
}

bool amounts_cover(const Resources& have, const Demand& demand) {
  for (const auto& [name, amount] : demand.resources.amounts()) {
    if (name != "gpu" && have.get(name) < amount) return false;
  }
  for (const auto& [name, amount] : demand.to_place.amounts()) {
    if (name != "gpu" && have.get(name) < amount) return false;
  }
  return true;
}

bool devices_serve(std::span<const Device> devices, const GpuAsk& ask) {
  if (ask.none()) return true;
  size_t found = 0;
  for (const auto& device : devices) {
    if (serves(device, ask) && ++found == ask.devices()) return true;
  }
  return false;
}

bool devices_could_ever(std::span<const Device> devices, const GpuAsk& ask) {
  std::vector<Device> empty;
  for (const auto& device : devices) empty.push_back({device.uuid, device.memory_bytes, device.usable});
  return devices_serve(empty, ask);
}

std::string quantity(std::string_view name, Amount amount) {
  if (name == "memory") return cat(base::format_size(amount.units / kWhole), " memory");
  if (name == "cpu") return cat(amount.text(), " CPU");
  return cat(amount.text(), " ", name);
}

std::string plain(std::string_view name, Amount amount) {
  return name == "memory" ? base::format_size(amount.units / kWhole) : amount.text();
}

std::string code_of(std::string_view name) {
  if (name == "cpu" || name == "memory") return cat("insufficient_", name);
  return "insufficient_resource";
}

Reason gpu_reason(std::span<const Device> devices, const GpuAsk& ask) {
  const bool ever = devices_could_ever(devices, ask);
  std::string what = cat(Amount{ask.units}.text(), " GPU");
  if (ask.memory_bytes > 0) what += cat(" with ", base::format_size(ask.memory_bytes));
  std::string_view verb = ask.units > kWhole ? " do not fit: " : " does not fit: ";
  if (devices.empty()) return {"insufficient_gpu", cat(what, verb, "the node has no GPU")};
  std::vector<std::string> figures;
  for (const auto& device : devices) {
    std::string figure = Amount{ever ? device.free_units() : kWhole}.text();
    if (ask.memory_bytes > 0) {
      figure += cat(" (", base::format_size(ever ? device.free_memory_bytes() : device.memory_bytes), ")");
    }
    if (!device.usable) figure += " (out of use)";
    figures.push_back(std::move(figure));
  }
  return {
      "insufficient_gpu",
      cat(what, verb, ever ? "free per device = " : "the node has in all, per device = ", base::join(figures, ", "))};
}

}  // namespace

Capacity::Capacity(Resources total, std::vector<Device> devices) : Capacity(total, total, std::move(devices)) {}

Capacity::Capacity(Resources total, Resources free, std::vector<Device> devices)
    : total_(std::move(total)), free_(std::move(free)), devices_(std::move(devices)) {
  sum_devices();
}

void Capacity::sum_devices() {
  int64_t all = 0, free = 0;
  for (const auto& device : devices_) {
    if (!device.usable) continue;
    all += kWhole;
    free += device.free_units();
  }
  total_.set("gpu", {all});
  free_.set("gpu", {free});
}

Device* Capacity::find(const std::string& uuid) {
  auto found = std::ranges::find(devices_, uuid, &Device::uuid);
  return found == devices_.end() ? nullptr : &*found;
}

bool Capacity::fits(const Demand& demand) const {
  return amounts_cover(free_, demand) && devices_serve(devices_, gpu_ask(demand));
}

std::optional<Holding> Capacity::choose(const Demand& demand) const {
  if (!fits(demand)) return std::nullopt;
  Holding out{demand.resources, {}};
  auto ask = gpu_ask(demand);
  if (ask.none()) return out;
  std::vector<const Device*> able;
  for (const auto& device : devices_) {
    if (serves(device, ask)) able.push_back(&device);
  }
  std::ranges::stable_sort(able, [](const Device* a, const Device* b) { return tighter(*a, *b); });
  for (size_t i = 0; i < ask.devices(); ++i) {
    const auto& device = *able[i];
    if (ask.whole()) {
      out.devices.push_back({device.uuid, kWhole, device.memory_bytes});
    } else {
      out.devices.push_back({device.uuid, ask.units, ask.memory_bytes});
    }
  }
  return out;
}

bool Capacity::could_ever(const Demand& demand) const {
  return amounts_cover(total_, demand) && devices_could_ever(devices_, gpu_ask(demand));
}

std::vector<Reason> Capacity::why_not(const Demand& demand) const {
  std::vector<Reason> out;
  auto need = needed(demand);
  for (const auto& [name, amount] : need.amounts()) {
    if (name == "gpu" || free_.get(name) >= amount) continue;
    auto total = total_.get(name);
    std::string text = cat(quantity(name, amount), " does not fit: ");
    if (total < amount) {
      text += total.units == 0 ? std::string("the node has none") : cat("the node has ", plain(name, total), " in all");
    } else {
      text += cat(plain(name, free_.get(name)), " of ", plain(name, total), " free");
    }
    out.push_back({code_of(name), std::move(text)});
  }
  auto ask = gpu_ask(demand);
  if (!devices_serve(devices_, ask)) out.push_back(gpu_reason(devices_, ask));
  return out;
}

void Capacity::take(const Holding& holding) {
  free_ -= holding.amounts;
  for (const auto& share : holding.devices) {
    if (auto* device = find(share.uuid)) {
      device->used_units += share.units;
      device->used_memory_bytes += share.memory_bytes;
    }
  }
  sum_devices();
}

void Capacity::give(const Holding& holding) {
  free_ += holding.amounts;
  for (const auto& share : holding.devices) {
    if (auto* device = find(share.uuid)) {
      device->used_units -= share.units;
      device->used_memory_bytes -= share.memory_bytes;
    }
  }
  std::erase_if(devices_, [](const Device& d) { return !d.listed && d.untouched(); });
  sum_devices();
}

void Capacity::update_devices(std::vector<Device> devices) {
  for (auto& device : devices) {
    if (const auto* known = find(device.uuid)) {
      device.used_units = known->used_units;
      device.used_memory_bytes = known->used_memory_bytes;
    }
  }
  for (auto& known : devices_) {
    if (known.untouched() || std::ranges::find(devices, known.uuid, &Device::uuid) != devices.end()) continue;
    known.usable = false;
    known.listed = false;
    devices.push_back(std::move(known));
  }
  devices_ = std::move(devices);
  sum_devices();
}

}  // namespace rayo::scheduler
