"""The steps that all questions share: arguments, plan, charge, receipt. Names no question."""
