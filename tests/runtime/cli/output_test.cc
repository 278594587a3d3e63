// What a user loses if these fail: a script takes a result for complete that a full disk has swallowed.
#include "runtime/cli/output.h"

#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

#include "runtime/base/fd.h"

namespace rayo::cli {
namespace {

struct Printed {
  int code;
  std::string told;
};

Printed print(int fd, const std::string& text, int code) {
  Output output(fd);
  std::ostream out(&output);
  std::ostringstream err;
  Terminal terminal(out, err, false);
  out << text;
  const int ended = output.finish(code, terminal);
  return {ended, err.str()};
}

TEST(Output, WhatWasLostFailsTheCommandAndIsToldOnce) {
  base::Fd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  for (const std::string& text : {std::string("short"), std::string(100'000, 'x')}) {
    Printed printed = print(full.get(), text, kDone);
    EXPECT_EQ(printed.code, kFailed);
    EXPECT_EQ(
        printed.told,
        "rayo: cannot print: No space left on device\ntry: send the output elsewhere; what was done stays done\n");
  }
  EXPECT_EQ(print(full.get(), "", kDone).code, kDone) << "nothing was lost";
  EXPECT_EQ(print(full.get(), "x", kNoCluster).told, "") << "the command has told its own error";
  EXPECT_EQ(print(full.get(), "x", kNoCluster).code, kNoCluster);
}

TEST(Output, AllOfALongTextArrives) {
  char name[] = "/tmp/rayo-output-XXXXXX";
  base::Fd file(mkstemp(name));
  unlink(name);
  std::string text;
  for (int line = 0; line < 20'000; ++line) text += std::to_string(line) + "\n";
  EXPECT_EQ(print(file.get(), text, kDone).code, kDone);
  std::string back(text.size() + 1, '\0');
  back.resize(static_cast<size_t>(pread(file.get(), back.data(), back.size(), 0)));
  EXPECT_EQ(back, text);
}

TEST(Output, AReaderThatHadEnoughIsNoError) {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  base::Fd write_end(ends[1]);
  Printed printed = print(write_end.get(), "x", kDone);
  EXPECT_EQ(printed.code, kDone);
  EXPECT_EQ(printed.told, "");
}

}  // namespace
}  // namespace rayo::cli
