// What a command prints on standard output, and whether it got there: a result that was lost is a failed command.
//
//   hold_standard_descriptors();
//   print("%s answers\n", name.c_str());
//   return printed(0);                     // 1, and why on standard error, where print() failed
//
// Of the thread that runs the command.
#pragma once

namespace serving {

// Descriptors 0 to 2 that were closed for us (`>&-`) are taken, so that no socket or file of ours becomes standard output.
// Before anything is opened.
void hold_standard_descriptors();

// printf, and out at once.
[[gnu::format(printf, 1, 2)]] void print(const char* format, ...);

// The command's own exit code; 1, told with the reason, where it was 0 and something printed was lost. A reader that had
// enough (`| head`) has lost nothing.
int printed(int code);

}  // namespace serving
