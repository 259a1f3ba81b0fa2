#!/bin/sh
exec test/t-labels
