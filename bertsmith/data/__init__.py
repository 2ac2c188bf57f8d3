"""Documents -> packed examples."""
