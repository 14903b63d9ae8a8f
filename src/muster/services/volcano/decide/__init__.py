"""What Volcano's controllers do next: values in, values out."""
