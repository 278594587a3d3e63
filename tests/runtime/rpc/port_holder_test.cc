// If these fail, the error of a taken port does not name who holds it.
#include "runtime/rpc/port_holder.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/fd.h"
#include "runtime/base/text.h"
#include "runtime/rpc/dial.h"

namespace rayo::rpc {
namespace {

TEST(PortHolder, NamesTheProcess) {
  base::Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(fd.get(), 1), 0);
  int port = local_address(fd.get())->port();
  std::string holder = port_holder(port);
  EXPECT_TRUE(holder.ends_with(base::cat(" (pid ", getpid(), ")"))) << holder;
  EXPECT_TRUE(holder.starts_with("runtime_rpc_tes")) << holder;  // the kernel keeps 15 characters
  fd.reset();
  EXPECT_EQ(port_holder(port), "");
}

TEST(PortHolder, ReadsTheKernelsTable) {
  auto found = parse_listeners(
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1 "
      "0000 100 0 0 10 0\n"
      "   1: 0100007F:18EB 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 4243 1 "
      "0000 20 4 30 10 -1\n"
      "   2: 00000000000000000000000001000000:18EC 00000000000000000000000000000000:0000 0A 0:0 00:0 0  0  0 "
      "77 1 0 100 0\n"
      "   3: nonsense\n   4: 0100007F:zz 0:0 0A a b c 1 2 3 4\n");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].port, 6379);
  EXPECT_EQ(found[0].inode, 4242u);
  EXPECT_EQ(found[0].uid, 1000u);
  EXPECT_EQ(found[1].port, 6380);
  EXPECT_EQ(found[1].inode, 77u);
}

}  // namespace
}  // namespace rayo::rpc
