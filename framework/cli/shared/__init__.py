"""What several verbs share: options, columns, errors as JSON."""
