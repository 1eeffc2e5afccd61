"""How every question is asked: arguments, plan, charge, receipt. Knows no single question."""
