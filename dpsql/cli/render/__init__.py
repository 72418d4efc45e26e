"""Results as text: tables, Markdown and bars for people; CSV, JSON, Arrow and Parquet for programs."""
