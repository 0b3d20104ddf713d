"""How often the findings of a review are right, and how long they take."""
