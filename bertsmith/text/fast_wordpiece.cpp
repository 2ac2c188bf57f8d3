// Texts -> the ids of their tokens and where these stand: greedy longest match first.
//
// What becomes of a character stands in a table that characters.py writes. The vocabulary is a trie:
// each step from a node by a character lies in a table, where a hash of both finds it. A text that
// holds what no table can say is left to the caller.
//
// Source: google-research/bert, tokenization.py: FullTokenizer.

#include <cstdint>
#include <cstdlib>

namespace {

// Of characters.py.
constexpr uint32_t ENDS_BEFORE = 1u << 21, ENDS_AFTER = 1u << 22, NOTHING = 1u << 23;
constexpr uint32_t SEVERAL = 1u << 24, MARK = 1u << 25, ASIDE = 1u << 26, SIGMA = 1u << 27;
constexpr uint32_t GREEK = 1u << 28, LOWEST = ENDS_BEFORE - 1;

constexpr int32_t NO_ROW = -1;
constexpr int32_t BEGINNING = 1, CONTINUATION = 2;  // nodes: of a word's first piece, of the others
constexpr int64_t LEFT_OUT = -1;                    // the count of a text
constexpr int64_t IS_UNKNOWN = -1, NO_ROOM = -2;     // in place of a number of tokens

struct Step {
  uint64_t key;  // of the node and the character; 0 in an empty place
  int32_t node;
  int32_t row;  // of the vocabulary's entry that ends here
};

struct Trie {
  Step* steps;
  int64_t bits;  // of the number of places
};

struct Rules {
  const uint32_t* entries;  // of all characters; 0 where the table does not know it yet
  const uint32_t* several;
  Trie trie;
  int32_t unknown;
  int32_t longest_word;
  int64_t most_become;  // of one character
};

struct Texts {
  const uint32_t* characters;  // end to end
  const int64_t* lengths;
  int64_t num_texts;
};

// Room for a word of all that the characters of the longest text become.
struct Word {
  uint32_t* letters;
  int32_t* places;
};

struct Tokens {
  int32_t* ids;
  int32_t* spans;  // null where only ids are wanted
  int32_t* words;
  int64_t* counts;       // of each text
  int64_t num_left_out;  // of texts
};

// Where the step is, or where it would be.
inline Step* place_of(const Trie& trie, int32_t node, uint32_t character) {
  uint64_t key = uint64_t(node) << 21 | character;
  uint64_t last = (uint64_t(1) << trie.bits) - 1;
  uint64_t place = key * 0x9E3779B97F4A7C15u >> (64 - trie.bits);
  while (trie.steps[place].key != key && trie.steps[place].key != 0) place = (place + 1) & last;
  return trie.steps + place;
}

// One text's tokens, behind those that are there.
struct Encoder {
  const Rules& rules;
  const Word& word;
  const Tokens& tokens;
  const uint32_t* text;
  int64_t length;
  int64_t num_tokens;
  int32_t num_words = 0;
  int64_t size = 0;  // of the word that has begun
  bool is_missing = false;

  uint32_t entry_of(uint32_t character) {
    uint32_t entry = rules.entries[character];
    is_missing |= entry == 0;
    return entry;
  }

  void push(uint32_t letter, int64_t place) {
    word.letters[size] = letter;
    word.places[size++] = int32_t(place);
  }

  void add(int32_t row, int64_t start, int64_t end) {
    if (tokens.spans != nullptr) {
      int64_t past = word.places[end - 1] + 1;
      while (past < length && text[past] > 127 && (entry_of(text[past]) & MARK)) past++;
      tokens.spans[2 * num_tokens] = word.places[start];
      tokens.spans[2 * num_tokens + 1] = int32_t(past);
      tokens.words[num_tokens] = num_words;
    }
    tokens.ids[num_tokens++] = row;
  }

  void end_word() {
    if (size == 0) return;
    const int64_t before = num_tokens;
    bool is_known = size <= rules.longest_word;
    for (int64_t start = 0; is_known && start < size;) {
      int32_t node = start == 0 ? BEGINNING : CONTINUATION, row = NO_ROW;
      int64_t end = start;
      for (int64_t place = start; place < size; place++) {
        const Step* step = place_of(rules.trie, node, word.letters[place]);
        if (step->key == 0) break;
        node = step->node;
        if (step->row != NO_ROW) row = step->row, end = place + 1;
      }
      is_known = row != NO_ROW;
      if (is_known) add(row, start, end);
      start = end;
    }
    if (!is_known) {
      num_tokens = before;
      add(rules.unknown, 0, size);
    }
    num_words++;
    size = 0;
  }

  // Whether tables say what becomes of the character at a place, and it was done.
  bool takes(uint32_t entry, int64_t place) {
    if (entry & ASIDE) return false;
    if (entry & SIGMA && !(place + 1 < length && entry_of(text[place + 1]) & GREEK)) return false;
    if (entry & ENDS_BEFORE) end_word();
    if (entry & SEVERAL) {
      const uint32_t* letters = rules.several + (entry & LOWEST);
      for (uint32_t i = 1; i <= letters[0]; i++) push(letters[i], place);
    } else if (!(entry & NOTHING)) {
      push(entry & LOWEST, place);
    }
    if (entry & ENDS_AFTER) end_word();
    return true;
  }

  // Whether tables say all of it.
  bool encode() {
    for (int64_t place = 0; place < length; place++) {
      uint32_t entry = entry_of(text[place]);
      if (entry <= LOWEST) {
        push(entry, place);
      } else if (!takes(entry, place)) {
        return false;
      }
    }
    end_word();
    return true;
  }
};

}  // namespace

// Puts entries of the vocabulary into a trie without steps; false where it has too few places.
extern "C" bool plant(Trie* trie, const uint32_t* characters, const int64_t* lengths,
                      const int32_t* rows, const bool* continues, int64_t num_entries) {
  int64_t room = (int64_t(1) << trie->bits) * 2 / 3;
  int32_t num_nodes = CONTINUATION + 1;
  for (int64_t i = 0; i < num_entries; i++) {
    int32_t node = continues[i] ? CONTINUATION : BEGINNING;
    for (int64_t j = 0; j < lengths[i]; j++) {
      Step* step = place_of(*trie, node, characters[j]);
      if (step->key == 0) {
        if (num_nodes >= room) return false;
        *step = {uint64_t(node) << 21 | characters[j], num_nodes++, NO_ROW};
      }
      if (j + 1 == lengths[i]) step->row = rows[i];
      node = step->node;
    }
    characters += lengths[i];
  }
  return true;
}

// Returns how many tokens there are, or why there are none: the table does not know all characters, or there
// is no room for a word.
extern "C" int64_t encode(const Rules* rules, const Texts* texts, Tokens* tokens) {
  int64_t longest = 1, num_tokens = 0, num_left_out = 0;
  for (int64_t i = 0; i < texts->num_texts; i++) {
    if (texts->lengths[i] > longest) longest = texts->lengths[i];
  }
  const int64_t room = rules->most_become * longest;
  void* memory = std::malloc(room * (sizeof(uint32_t) + sizeof(int32_t)));
  if (memory == nullptr) return NO_ROOM;
  uint32_t* letters = static_cast<uint32_t*>(memory);
  const Word word{letters, reinterpret_cast<int32_t*>(letters + room)};
  const uint32_t* text = texts->characters;
  for (int64_t i = 0; i < texts->num_texts && num_tokens >= 0; i++) {
    Encoder encoder{*rules, word, *tokens, text, texts->lengths[i], num_tokens};
    bool is_done = encoder.encode();
    tokens->counts[i] = is_done ? encoder.num_tokens - num_tokens : LEFT_OUT;
    num_left_out += !is_done;
    if (is_done) num_tokens = encoder.num_tokens;
    if (encoder.is_missing) num_tokens = IS_UNKNOWN;
    text += texts->lengths[i];
  }
  tokens->num_left_out = num_left_out;
  std::free(memory);
  return num_tokens;
}
