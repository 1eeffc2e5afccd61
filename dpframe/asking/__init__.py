"""The steps that all questions share: arguments, plan, charge, receipt. They name no question."""
