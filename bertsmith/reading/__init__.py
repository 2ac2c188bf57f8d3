"""Files of any known format -> documents -> sentences."""
