"""All of BERT in one small package (exports follow)."""
