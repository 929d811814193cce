/* names.cpp - see names.h. */
#include "tests/step/names.h"

#include <cxxabi.h>
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <string>
#include <vector>

namespace
{

std::map<uintptr_t, std::string> names; /* as the linker has them */
std::map<uintptr_t, std::string> found; /* as people read them */

bool read_at(FILE *f, uint64_t at, void *to, size_t bytes)
{
    return fseek(f, (long)at, SEEK_SET) == 0 && fread(to, 1, bytes, f) == bytes;
}

template <class X>
bool read_section(FILE *f, const Elf64_Shdr &s, std::vector<X> *ret)
{
    ret->resize(s.sh_size / sizeof(X));
    return read_at(f, s.sh_offset, ret->data(), ret->size() * sizeof(X));
}

bool read_symbols(FILE *f)
{
    Elf64_Ehdr head;
    std::vector<Elf64_Shdr> sections;
    std::vector<Elf64_Sym> symbols;
    std::vector<char> text;

    if (!read_at(f, 0, &head, sizeof(head)) || head.e_type != ET_EXEC)
        return false;
    sections.resize(head.e_shnum);
    if (!read_at(f, head.e_shoff, sections.data(),
                 sections.size() * sizeof(sections[0])))
        return false;
    for (const Elf64_Shdr &s : sections) {
        if (s.sh_type != SHT_SYMTAB)
            continue;
        if (!read_section(f, s, &symbols) ||
            !read_section(f, sections[s.sh_link], &text))
            return false;
        text.push_back(0);
        for (const Elf64_Sym &y : symbols)
            if (ELF64_ST_TYPE(y.st_info) == STT_FUNC && y.st_name < text.size())
                names[y.st_value] = &text[y.st_name];
    }
    return !names.empty();
}

void drop(std::string *s, const char *what)
{
    for (size_t i; (i = s->find(what)) != std::string::npos;)
        s->erase(i, strlen(what));
}

/* "void (anonymous namespace)::f<int, 8>(blk, ...)" becomes "f<int,8>". */
std::string plain(const char *mangled)
{
    int status = 0;
    char *p = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
    std::string s = p ? p : mangled;

    free(p);
    drop(&s, "(anonymous namespace)::");
    s.erase(s.find('(') == std::string::npos ? s.size() : s.find('('));
    if (s.compare(0, 5, "void ") == 0)
        s.erase(0, 5);
    drop(&s, " ");
    return s;
}

} // namespace

int names_open(struct error *err)
{
    FILE *f = names.empty() ? fopen("/proc/self/exe", "rb") : nullptr;
    bool is_read = !names.empty() || (f && read_symbols(f));

    if (f)
        (void)fclose(f);
    return is_read ? 0
                   : error_set(err, ERR_IO,
                               "the program's table of symbols cannot be read: "
                               "link it with -no-pie and do not strip it");
}

const char *names_find(const void *function)
{
    uintptr_t at = reinterpret_cast<uintptr_t>(function);
    auto known = names.find(at);

    if (known == names.end())
        return "?";
    auto name = found.find(at);
    if (name == found.end())
        name = found.emplace(at, plain(known->second.c_str())).first;
    return name->second.c_str();
}
