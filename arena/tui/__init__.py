"""Full screens in the terminal, by Textual: imported only when one opens."""
