// What a user loses if these fail: errors are not the two lines that scripts and people rely on, tables do
// not line up.
#include "runtime/cli/terminal.h"

#include <gtest/gtest.h>
#include <sstream>

#include "runtime/cli/daemon_logs.h"

namespace rayo::cli {
namespace {

TEST(Terminal, AnErrorIsExactlyTwoLinesWhateverItsText) {
  std::ostringstream out, err;
  Terminal terminal(out, err, false);
  EXPECT_EQ(terminal.fail(base::failed(absl::StatusCode::kUnavailable, "cannot reach X:\nrefused\n", "look\nthere"),
                          kNoCluster),
            3);
  EXPECT_EQ(err.str(), "rayo: cannot reach X: refused\ntry: look there\n");
  EXPECT_EQ(out.str(), "");
}

TEST(Terminal, AnErrorWithoutANextStepStillHasOne) {
  std::ostringstream out, err;
  Terminal terminal(out, err, false);
  terminal.fail(base::failed(absl::StatusCode::kInternal, "broken"), kFailed);
  EXPECT_EQ(err.str(), "rayo: broken\ntry: rayo doctor\n");
}

TEST(Terminal, TablesLineUpAndHaveNoTrailingBlanks) {
  EXPECT_EQ(table({{"A", "B", ""}, {"long", "x", "end"}, {"é", "", ""}}), "A     B\nlong  x  end\né\n");
}

TEST(Terminal, WhatAProgramCallsItselfNeitherMovesTheCursorNorEndsTheRow) {
  EXPECT_EQ(printable("a\nb\tc"), "a b c");
  EXPECT_EQ(printable("\x1b[2Jgone\x7f"), "\xef\xbf\xbd[2Jgone\xef\xbf\xbd");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m\xc2\xa0\xe9"),
            "\xef\xbf\xbd"
            "31m\xc2\xa0\xef\xbf\xbd");
  EXPECT_EQ(table({{"A", "B"}, {"x\ny", "z"}}), "A    B\nx y  z\n");
  std::ostringstream out, err;
  Terminal terminal(out, err, false);
  terminal.fail("no \x1b]0;title\x07", "look\rthere", kFailed);
  EXPECT_EQ(err.str(), "rayo: no \xef\xbf\xbd]0;title\xef\xbf\xbd\ntry: look\xef\xbf\xbdthere\n");
}

TEST(ExitCodes, FollowTheContract) {
  using absl::StatusCode;
  auto code = [](StatusCode status) { return exit_code_of_call(base::failed(status, "x")); };
  EXPECT_EQ(code(StatusCode::kUnavailable), 3);
  EXPECT_EQ(code(StatusCode::kUnauthenticated), 4);
  EXPECT_EQ(code(StatusCode::kPermissionDenied), 4);
  EXPECT_EQ(code(StatusCode::kDeadlineExceeded), 5);
  EXPECT_EQ(code(StatusCode::kInvalidArgument), 2);
  EXPECT_EQ(code(StatusCode::kInternal), 1);
  EXPECT_EQ(exit_code_of_search(base::failed(StatusCode::kNotFound, "x")), 3);
  EXPECT_EQ(exit_code_of_search(base::failed(StatusCode::kFailedPrecondition, "x")), 2)
      << "several clusters: say which";
}

TEST(LogLines, ACountIsANumberOfLines) {
  EXPECT_EQ(*parse_line_count("10"), 10);
  EXPECT_FALSE(parse_line_count("-1").ok());
  EXPECT_FALSE(parse_line_count("all").ok());
}

}  // namespace
}  // namespace rayo::cli
