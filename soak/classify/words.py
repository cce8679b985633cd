"""English words of the rules on word order and on unfinished sentences: closed classes."""

# fmt: off
# Words that never follow "the", "an" or "of"; without keywords ("the for loop", "the if"). "A" is left out with them:
# it is a common variable.
NEVER_AFTER_ARTICLE = frozenset((
    "of", "are", "was", "were", "be", "been", "but", "he", "she", "they", "we", "you", "i", "then", "than", "so",
    "has", "have", "had", "would", "could", "did", "to", "at", "on", "by", "is", "and", "or", "in",
))

# Words that no sentence ends with. Prepositions that do end sentences ("turn it on") are left out.
UNENDING = frozenset((
    "the", "a", "an", "and", "or", "but", "of", "nor", "my", "your", "our", "their", "its", "every", "because",
    "than", "whose", "into", "onto", "from", "with", "via", "per", "if", "whether", "while", "although", "unless",
    "until", "since", "is", "are", "was", "were", "am", "be", "been", "being", "has", "have", "had", "will",
    "would", "shall", "should", "could", "can", "may", "might", "must", "which", "who", "we", "i", "he", "she",
    "they",
))

# Those of them that do end an elliptic sentence ("I think it is").
SELDOM_ENDING = frozenset((
    "is", "are", "was", "were", "be", "been", "has", "have", "had", "will", "would", "should", "could", "can",
    "may", "might", "must", "i",
))
# fmt: on

UNENDING_SQL = frozenset(("AND", "OR", "WHERE", "FROM", "JOIN", "BY", "SET", "VALUES", "INTO", "SELECT"))

ONE_WORD_ANSWERS = frozenset(
    ("yes", "no", "ok", "okay", "done", "true", "false", "none", "null", "pass", "fail", "passed", "failed")
)

NUMBER_WORDS = {
    name: at
    for at, name in enumerate(("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), start=2)
}
