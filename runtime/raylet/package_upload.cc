#include "runtime/raylet/package_upload.h"

#include "runtime/base/log.h"
#include "runtime/raylet/head_link.h"
#include "runtime/raylet/jobs.h"
#include "runtime/raylet/lease_service.h"
#include "runtime/raylet/package_store.h"

namespace rayo::raylet {

void upload_packages(Parts& parts) {
  for (PackageId package : parts.jobs.own_packages(parts.own.id)) upload_package(parts, package);
}

void upload_package(Parts& parts, PackageId package) {
  parts.tasks.spawn("upload package", [package, &packages = parts.packages, &head = parts.head, &loop = parts.loop] {
    auto sent = packages.upload(package, head.channel(), loop.deadline(std::chrono::seconds(60)));
    if (!sent.ok()) base::log().warn("package {}: {}", package.hex(), base::message(sent));
  });
}

}  // namespace rayo::raylet
