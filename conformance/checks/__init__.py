"""How each rule is tested, a folder for each area.  The texts of the rules are in ``rules.ini``."""
