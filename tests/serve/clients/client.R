# RPostgreSQL or RODBC, asked for one thing; prints one line of tab-separated texts for each row, \N for NULL.
# Arguments: package, ability, connection string; then texts, each in a file.

given <- commandArgs(trailingOnly = TRUE)
package <- given[1]
ability <- given[2]
texts <- vapply(given[-(1:3)], function(file) paste(readLines(file, encoding = "UTF-8", warn = FALSE), collapse = "\n"), "")

shown <- function(value) {
  if (is.factor(value)) value <- as.character(value)
  text <- if (is.logical(value)) tolower(as.character(value))
    else if (inherits(value, "POSIXct")) format(value, "%Y-%m-%dT%H:%M:%OS6", tz = "UTC")
    else if (is.double(value) && !inherits(value, "Date")) sprintf("%.17g", value)
    else as.character(value)
  for (pair in list(c("\\", "\\\\"), c("\t", "\\t"), c("\n", "\\n"), c("\r", "\\r")))
    text <- gsub(pair[1], pair[2], text, fixed = TRUE)
  ifelse(is.na(value) & !is.nan(if (is.double(value)) value else 0), "\\N", text)
}

print_rows <- function(frame) {
  cat("columns", names(frame), sep = "\t")
  cat("\n")
  if (nrow(frame) > 0)
    cat(paste("row", do.call(paste, c(lapply(frame, shown), sep = "\t")), sep = "\t"), sep = "\n")
}

if (package == "RPostgreSQL") {
  suppressPackageStartupMessages(library(RPostgreSQL))
  connection <- dbConnect(PostgreSQL(), dbname = given[3], password = Sys.getenv("PGPASSWORD"))
  ask <- function(text, ...) {
    found <- dbGetQuery(connection, text, ...)
    if (is.null(found)) stop(dbGetException(connection)$errorMsg)
    found
  }
  tables <- function() data.frame(name = dbListTables(connection))
  columns <- function(table) data.frame(name = dbListFields(connection, table))
  leave <- function() invisible(dbDisconnect(connection))
} else {
  library(RODBC)
  connection <- odbcDriverConnect(paste0(given[3], "Pwd=", Sys.getenv("PGPASSWORD"), ";"), believeNRows = FALSE)
  ask <- function(text) {
    found <- sqlQuery(connection, text, stringsAsFactors = FALSE, as.is = TRUE)
    if (!is.data.frame(found)) stop(paste(found, collapse = "\n"))
    found
  }
  tables <- function() data.frame(name = sqlTables(connection, tableType = "TABLE", schema = "public")$TABLE_NAME)
  columns <- function(table) data.frame(name = sqlColumns(connection, table)$COLUMN_NAME)
  leave <- function() odbcClose(connection)
}

switch(ability,
  ask = for (text in texts) print_rows(ask(text)),
  parameters = {
    print_rows(ask(texts[1], list("Injuries", "S10", 7)))
    for (values in list(list("Old Town", 1990), list("Islands", 2000))) print_rows(ask(texts[2], values))
    print_rows(ask(texts[3], list(0.125, "2024-02-01", 30.5, 5, 60, "Summit", 10, 4)))
  },
  large = cat("row\t", nrow(ask(texts[1])), "\n", sep = ""),
  refused = tryCatch(ask(texts[1]), error = function(error) cat("row\t", shown(conditionMessage(error)), "\n", sep = "")),
  browsed = {
    print_rows(tables())
    print_rows(columns("visits"))
  }
)
leave()
