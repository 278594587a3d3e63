#include "examples/llm_serving/program_output.h"

#include <array>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace serving {

ProgramOutput output_of(std::vector<std::string> words) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int started = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  ProgramOutput output;
  std::array<char, 4096> piece{};
  ssize_t bytes = 0;
  while (started == 0 && (bytes = read(ends[0], piece.data(), piece.size())) > 0)
    output.text.append(piece.data(), static_cast<size_t>(bytes));
  close(ends[0]);
  int status = 1;
  if (started == 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)) output.code = WEXITSTATUS(status);
  return output;
}

}  // namespace serving
