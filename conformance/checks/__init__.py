"""How each rule is tested, by area.  The texts of the rules are in ``rules.ini``."""
