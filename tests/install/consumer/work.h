#pragma once
#include <string>
#include <vector>

#include <rayo/rayo.h>

struct Word {
  std::string text;
  int times = 0;
};

int triple(int n);
rayo::ObjectRef<std::vector<Word>> repeat_remotely(const std::string& text, int times);
