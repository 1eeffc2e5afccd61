"""The steps that all questions share: arguments, plan, charge, receipt. No question is named here."""
