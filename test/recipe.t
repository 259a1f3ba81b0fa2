#!/bin/sh
exec test/t-recipe
