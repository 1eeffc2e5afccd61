"""What a rollup measures: measures, values as whole numbers, bins of values, and vectors."""
