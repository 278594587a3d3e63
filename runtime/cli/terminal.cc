#include "runtime/cli/terminal.h"

#include <algorithm>
#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include "runtime/base/fd.h"
#include "runtime/base/text.h"

namespace rayo::cli {
namespace {

// An error is two lines whatever text it carries.
std::string one_line(std::string_view text) { return printable(base::trim(text)); }

// UTF-8 characters, so that a model's name with an accent does not shift the table.
size_t width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// While it lives, what is typed is not shown.
class NoEcho {
 public:
  explicit NoEcho(int fd) : fd_(fd), known_(tcgetattr(fd, &before_) == 0) {
    if (!known_) return;
    termios quiet = before_;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    tcsetattr(fd_, TCSAFLUSH, &quiet);
  }
  ~NoEcho() {
    if (known_) tcsetattr(fd_, TCSAFLUSH, &before_);
  }
  NoEcho(const NoEcho&) = delete;
  NoEcho& operator=(const NoEcho&) = delete;

 private:
  int fd_;
  termios before_{};
  bool known_;
};

}  // namespace

void Terminal::note(std::string_view text) { err_ << "rayo: " << one_line(text) << std::endl; }

int Terminal::fail(const base::Status& status, ExitCode code) {
  return fail(base::message(status), base::next_step(status), code);
}

int Terminal::fail(std::string_view what, std::string_view next_step, ExitCode code) {
  out_.flush();
  err_ << "rayo: " << one_line(what) << "\n"
       << "try: " << (next_step.empty() ? "rayo doctor" : one_line(next_step)) << std::endl;
  return code;
}

std::string Terminal::ask_secret(std::string_view question) {
  base::Fd tty(isatty(STDIN_FILENO) ? open("/dev/tty", O_RDWR | O_CLOEXEC) : -1);
  if (!tty) return {};
  const std::string prompt = base::cat(question, ": ");
  std::string secret;
  {
    NoEcho quiet(tty.get());  // before it asks: what is typed until then is thrown away
    if (write(tty.get(), prompt.data(), prompt.size()) < 0) return {};
    char c = 0;
    while (secret.size() < 4096 && read(tty.get(), &c, 1) == 1 && c != '\n') secret.push_back(c);
  }
  if (write(tty.get(), "\n", 1) < 0) return {};
  return std::string(base::trim(secret));
}

std::string printable(std::string_view text) {
  std::string out;
  const std::string valid = base::as_utf8(text);
  for (size_t i = 0; i < valid.size(); ++i) {
    const auto byte = static_cast<unsigned char>(valid[i]);
    const bool c1 = byte == 0xc2 && static_cast<unsigned char>(valid[i + 1]) < 0xa0;  // U+0080 to U+009F
    if (byte == '\n' || byte == '\t') {
      out += ' ';
    } else if (byte < 0x20 || byte == 0x7f || c1) {
      out += "\xef\xbf\xbd";
    } else {
      out += valid[i];
    }
    i += c1;
  }
  return out;
}

std::string table(std::vector<std::vector<std::string>> rows) {
  for (auto& row : rows)
    for (std::string& cell : row) cell = printable(cell);
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], width(row[column]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t column = 0; column < row.size(); ++column) {
      line += row[column];
      if (column + 1 < row.size()) line.append(widths[column] - width(row[column]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace rayo::cli
